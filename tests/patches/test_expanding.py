"""A little data that becomes very much is unpacked in threads, and what is unpacked is the same."""

from tests.programs import check

PROGRAM = """
    import bz2, lzma, os, zlib
    from syncless.patches import cpu
    run, made = cpu._pool.run, []
    cpu._pool.run = lambda *args: (made.append(args), run(*args))[1]
    def threads(function, *args, **kwargs):
        made.clear()
        found = function(*args, **kwargs)
        return len(made), found
    large, little = bytes(5_000_000), b"little"
    for unpack, module in ((zlib.decompress, zlib), (bz2.decompress, bz2), (lzma.decompress, lzma)):
        assert threads(unpack, module.compress(large)) == (1, large)
        assert threads(unpack, module.compress(little)) == (0, little)
    noise = os.urandom(100_000)
    assert threads(zlib.decompress, zlib.compress(noise)) == (0, noise)
    for wrong in (zlib.compress(noise)[:-10], noise, zlib.compress(large)[:-10]):
        try: zlib.decompress(wrong)
        except zlib.error: pass
        else: raise AssertionError
    for make, module, none in ((zlib.decompressobj, zlib, 0), (bz2.BZ2Decompressor, bz2, -1),
                               (lzma.LZMADecompressor, lzma, -1)):
        packed = module.compress(large) + b"more"
        unpacker = make()
        assert threads(unpacker.decompress, packed) == (1, large)
        assert unpacker.eof and unpacker.unused_data == b"more"
        unpacker = make()
        assert threads(unpacker.decompress, packed, max_length=1000) == (0, bytes(1000)) and not unpacker.eof
        rest = getattr(unpacker, "unconsumed_tail", b"")
        assert threads(unpacker.decompress, rest, none) == (1, bytes(5_000_000 - 1000)) and unpacker.eof
        unpacker, found = make(), bytearray()
        for at in range(0, len(packed), 7):
            if not unpacker.eof:
                found += unpacker.decompress(packed[at : at + 7])
        assert found == large
"""


def test_little_data_that_becomes_very_much_is_unpacked_in_threads():
    check(PROGRAM, patch="patch_all(cpu=True)")
