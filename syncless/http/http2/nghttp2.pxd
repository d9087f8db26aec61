"""The part of libnghttp2 that is used here. Its manual: https://nghttp2.org/documentation/apiref.html."""

from libc.stdint cimport int32_t, uint8_t, uint32_t

cdef extern from "nghttp2/nghttp2.h":
    enum:
        NGHTTP2_DATA, NGHTTP2_HEADERS, NGHTTP2_RST_STREAM, NGHTTP2_GOAWAY
        NGHTTP2_FLAG_NONE, NGHTTP2_FLAG_END_STREAM
        NGHTTP2_HCAT_REQUEST
        NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, NGHTTP2_SETTINGS_ENABLE_PUSH
        NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE
        NGHTTP2_SETTINGS_MAX_FRAME_SIZE, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE
        NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL
        NGHTTP2_NO_ERROR, NGHTTP2_PROTOCOL_ERROR, NGHTTP2_INTERNAL_ERROR, NGHTTP2_REFUSED_STREAM
        NGHTTP2_STREAM_CLOSED, NGHTTP2_CANCEL, NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_HTTP_1_1_REQUIRED
        NGHTTP2_DATA_FLAG_EOF, NGHTTP2_DATA_FLAG_NO_END_STREAM
        NGHTTP2_NV_FLAG_NONE
        NGHTTP2_ERR_CALLBACK_FAILURE, NGHTTP2_ERR_DEFERRED, NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
        NGHTTP2_ERR_FLOODED, NGHTTP2_ERR_BAD_CLIENT_MAGIC

    ctypedef struct nghttp2_session:
        pass
    ctypedef struct nghttp2_session_callbacks:
        pass
    ctypedef struct nghttp2_option:
        pass
    ctypedef struct nghttp2_nv:
        uint8_t* name
        uint8_t* value
        size_t namelen, valuelen
        uint8_t flags
    ctypedef struct nghttp2_settings_entry:
        int32_t settings_id
        uint32_t value
    ctypedef struct nghttp2_frame_hd:
        size_t length
        int32_t stream_id
        uint8_t type, flags
    ctypedef struct nghttp2_headers:
        int cat
    ctypedef struct nghttp2_rst_stream:
        uint32_t error_code
    ctypedef struct nghttp2_goaway:
        uint32_t error_code
    ctypedef union nghttp2_frame:
        nghttp2_frame_hd hd
        nghttp2_headers headers
        nghttp2_rst_stream rst_stream
        nghttp2_goaway goaway
    ctypedef union nghttp2_data_source:
        void* ptr
    ctypedef ssize_t (*nghttp2_data_source_read_callback)(
        nghttp2_session* session, int32_t id, uint8_t* into, size_t room, uint32_t* flags,
        nghttp2_data_source* source, void* owner) noexcept
    ctypedef struct nghttp2_data_provider:
        nghttp2_data_source source
        nghttp2_data_source_read_callback read_callback

    int nghttp2_option_new(nghttp2_option** option)
    void nghttp2_option_del(nghttp2_option* option)
    void nghttp2_option_set_no_auto_window_update(nghttp2_option* option, int value)
    void nghttp2_option_set_no_closed_streams(nghttp2_option* option, int value)

    int nghttp2_session_callbacks_new(nghttp2_session_callbacks** callbacks)
    void nghttp2_session_callbacks_set_on_begin_frame_callback(nghttp2_session_callbacks* callbacks,
        int (*function)(nghttp2_session*, const nghttp2_frame_hd*, void*) noexcept)
    void nghttp2_session_callbacks_set_on_begin_headers_callback(nghttp2_session_callbacks* callbacks,
        int (*function)(nghttp2_session*, const nghttp2_frame*, void*) noexcept)
    void nghttp2_session_callbacks_set_on_header_callback(nghttp2_session_callbacks* callbacks,
        int (*function)(nghttp2_session*, const nghttp2_frame*, const uint8_t*, size_t,
            const uint8_t*, size_t,
            uint8_t, void*) noexcept)
    void nghttp2_session_callbacks_set_on_invalid_header_callback(nghttp2_session_callbacks* callbacks,
        int (*function)(nghttp2_session*, const nghttp2_frame*, const uint8_t*, size_t,
            const uint8_t*, size_t,
            uint8_t, void*) noexcept)
    void nghttp2_session_callbacks_set_on_frame_recv_callback(nghttp2_session_callbacks* callbacks,
        int (*function)(nghttp2_session*, const nghttp2_frame*, void*) noexcept)
    void nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(nghttp2_session_callbacks* callbacks,
        int (*function)(nghttp2_session*, const nghttp2_frame*, int, void*) noexcept)
    void nghttp2_session_callbacks_set_on_frame_send_callback(nghttp2_session_callbacks* callbacks,
        int (*function)(nghttp2_session*, const nghttp2_frame*, void*) noexcept)
    void nghttp2_session_callbacks_set_on_data_chunk_recv_callback(nghttp2_session_callbacks* callbacks,
        int (*function)(nghttp2_session*, uint8_t, int32_t, const uint8_t*, size_t, void*) noexcept)
    void nghttp2_session_callbacks_set_on_stream_close_callback(nghttp2_session_callbacks* callbacks,
        int (*function)(nghttp2_session*, int32_t, uint32_t, void*) noexcept)

    int nghttp2_session_server_new2(nghttp2_session** session, const nghttp2_session_callbacks* callbacks,
        void* owner, const nghttp2_option* option)
    void nghttp2_session_del(nghttp2_session* session)
    ssize_t nghttp2_session_mem_recv(nghttp2_session* session, const uint8_t* data, size_t size)
    ssize_t nghttp2_session_mem_send(nghttp2_session* session, const uint8_t** data)
    int nghttp2_session_want_read(nghttp2_session* session)
    int nghttp2_session_want_write(nghttp2_session* session)
    int nghttp2_session_set_stream_user_data(nghttp2_session* session, int32_t id, void* stream)
    void* nghttp2_session_get_stream_user_data(nghttp2_session* session, int32_t id)
    int32_t nghttp2_session_get_last_proc_stream_id(nghttp2_session* session)
    int32_t nghttp2_session_get_local_window_size(nghttp2_session* session)
    int nghttp2_session_consume_stream(nghttp2_session* session, int32_t id, size_t size)
    uint32_t nghttp2_session_get_remote_settings(nghttp2_session* session, int id)
    int nghttp2_session_resume_data(nghttp2_session* session, int32_t id)
    int nghttp2_session_terminate_session(nghttp2_session* session, uint32_t error)

    int nghttp2_submit_settings(nghttp2_session* session, uint8_t flags,
        const nghttp2_settings_entry* entries,
        size_t count)
    int nghttp2_submit_response(nghttp2_session* session, int32_t id, const nghttp2_nv* fields,
        size_t count,
        const nghttp2_data_provider* body)
    int32_t nghttp2_submit_headers(nghttp2_session* session, uint8_t flags, int32_t id,
        const void* priority,
        const nghttp2_nv* fields, size_t count, void* stream)
    int nghttp2_submit_trailer(nghttp2_session* session, int32_t id, const nghttp2_nv* fields, size_t count)
    int nghttp2_submit_window_update(nghttp2_session* session, uint8_t flags, int32_t id, int32_t increment)
    int nghttp2_submit_rst_stream(nghttp2_session* session, uint8_t flags, int32_t id, uint32_t error)
    int nghttp2_submit_shutdown_notice(nghttp2_session* session)
    int nghttp2_submit_goaway(nghttp2_session* session, uint8_t flags, int32_t last, uint32_t error,
        const void* text, size_t size)

cdef extern from *:
    """
    #include "syncless_config.h"
    /* What newer releases of the library limit besides. */
    static void syncless_leave_to_credit(nghttp2_option *option) {
        (void) option;
    #if SYNCLESS_HTTP2_RESETS
        nghttp2_option_set_stream_reset_rate_limit(option, UINT64_MAX, UINT64_MAX);
    #endif
    #if SYNCLESS_HTTP2_GLITCHES
        nghttp2_option_set_glitch_rate_limit(option, UINT64_MAX, UINT64_MAX);
    #endif
    #if SYNCLESS_HTTP2_CONTINUATIONS
        nghttp2_option_set_max_continuations(option, SIZE_MAX);
    #endif
    }
    /* Releases that know RFC 9218 alone send one response after the other, if nobody asks for turns. */
    #ifdef NGHTTP2_EXTPRI_DEFAULT_URGENCY
    #define SYNCLESS_RFC9218 1
    #else
    #define SYNCLESS_RFC9218 0
    #endif
    static int syncless_take_turns(nghttp2_session *session, int32_t id) {
    #if SYNCLESS_RFC9218
        nghttp2_extpri turns = {NGHTTP2_EXTPRI_DEFAULT_URGENCY, 1};
        return nghttp2_session_change_extpri_stream_priority(session, id, &turns, 0);
    #else
        return (void) session, (void) id, 0;
    #endif
    }
    """
    void syncless_leave_to_credit(nghttp2_option* option)
    int syncless_take_turns(nghttp2_session* session, int32_t id)
    int RFC9218 "SYNCLESS_RFC9218"      # 1 if the library follows its priorities
