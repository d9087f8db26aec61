"""A `gunicorn.conf.py` as options of ours, by the same tables as the command line (foreign.py).

Takes the path, and gives options in gunicorn's spelling. A setting that needs an answer is named in a
sentence.
"""

from __future__ import annotations

from typing import Any

from syncless.cli.config import of_option, text_of
from syncless.cli.foreign import ACCEPTED, HEAVY, INSTEAD, LEAVE_OUT, SAME, TOGETHER, Foreign
from syncless.http.notices import complain

SPELLED = {
    "accesslog": "--access-logfile",
    "access_log_format": "--access-logformat",
    "control_socket_disable": "--no-control-socket",
    "dirty_apps": "--dirty-app",
    "errorlog": "--error-logfile",
    "keepalive": "--keep-alive",
    "loglevel": "--log-level",
    "limit_request_field_size": "--limit-request-field_size",
    "logconfig": "--log-config",
    "logconfig_json": "--log-config-json",
    "pidfile": "--pid",
    "preload_app": "--preload",
    "proc_name": "--name",
    "proxy_allow_ips": "--proxy-allow-from",
    "raw_env": "--env",
    "raw_paste_global_conf": "--paste-global",
    "reload_extra_files": "--reload-extra-file",
    "sendfile": "--no-sendfile",
    "syslog": "--log-syslog",
    "syslog_addr": "--log-syslog-to",
    "syslog_facility": "--log-syslog-facility",
    "syslog_prefix": "--log-syslog-prefix",
    "uwsgi_allow_ips": "--uwsgi-allow-from",
}
"""Setting -> option, where they differ in more than dashes."""
FIELDS = "write trusted-field in syncless.toml, or --trusted-field NAME, for each field that your proxy sets"
HOOK = "write a function for --hook {}=module:function; docs/howto/hooks.md has its arguments"
SETTINGS = {
    "logconfig_dict": "write [logging] in syncless.toml",
    "secure_scheme_headers": FIELDS,
    "tmp_upload_dir": "leave it out: a body is read as it comes",
    "default_proc_name": "leave it out: pip install 'syncless[titles]' names the processes",
    "ssl_context": "write serve(ssl_context=...) in a program",
    **dict.fromkeys(("on_starting", "when_ready"), HOOK.format("on_start")),
    **dict.fromkeys(("pre_fork", "post_fork", "post_worker_init"), HOOK.format("post_fork")),
    **dict.fromkeys(("worker_exit", "child_exit", "worker_int", "worker_abort"), HOOK.format("worker_exit")),
    **dict.fromkeys(
        ("on_dirty_starting", "dirty_post_fork", "dirty_worker_init", "dirty_worker_exit"), HEAVY
    ),
    "pre_request": HOOK.format("pre_request"),
    "post_request": HOOK.format("post_request"),
    "on_exit": HOOK.format("pre_stop"),
    **dict.fromkeys(("on_reload", "pre_exec", "nworkers_changed"), "leave it out: there is no such hook"),
}
"""Setting that no option sets -> what to do."""


def options_of(path: str) -> list[str]:
    """The settings of the file as arguments of a command line. Foreign names those that need an answer."""
    with of_option("--config"):
        text = text_of(path)
    settings: dict[str, Any] = {"__file__": path, "__name__": "__config__"}
    try:
        exec(compile(text, path, "exec"), settings)
    except Exception as error:
        raise Foreign(f"{path}: {type(error).__name__}: {error}") from None
    arguments: list[str] = []
    application: list[str] = []
    wrong = []
    for name, value in settings.items():
        option = SPELLED.get(name, f"--{name.replace('_', '-')}")
        answer = SETTINGS.get(name) or INSTEAD.get(option)
        if value is None or value is False or value in ([], {}, ""):
            continue
        if name == "wsgi_app":
            application = [str(value)]
        elif answer and answer.startswith(LEAVE_OUT):
            complain(f"{path}: {name} is not used; {answer}")
        elif answer:
            wrong.append(f"there is no {name}; {answer}")
        elif option in ACCEPTED or option in TOGETHER or option in SAME:
            arguments += _written(option, value)
    if wrong:
        raise Foreign(f"{path}: " + f"\nsyncless: {path}: ".join(wrong))
    return [*arguments, *application]


def _written(option: str, value: Any) -> list[str]:
    if value is True:
        return [option]
    if option == "--umask" and isinstance(value, int):
        return [option, f"{value:o}"]
    if option == "--bind" and isinstance(value, str):
        value = value.split(",")
    if option == "--forwarded-allow-ips" and not isinstance(value, str):
        value = ",".join(value)
    return [f"{option}={one}" for one in (value if isinstance(value, (list, tuple)) else [value])]
