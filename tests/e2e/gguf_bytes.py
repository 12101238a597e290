"""GGUF files byte by byte, so that they can be wrong in any way, and a small editor for right ones."""

import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FIXED = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?",
         U64: "<Q", I64: "<q", F64: "<d"}


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def string(text):
    text = text.encode() if isinstance(text, str) else text
    return u64(len(text)) + text


def header(tensors, keys, version=3, magic=b"GGUF"):
    return magic + u32(version) + u64(tensors) + u64(keys)


def key(name, kind, value):
    return string(name) + u32(kind) + value


def tensor(name, dims, kind=0, offset=0):
    return (string(name) + u32(len(dims)) + b"".join(u64(d) for d in dims) + u32(kind) +
            u64(offset))


def padded(data, alignment=32):
    return data + b"\0" * (-len(data) % alignment)


class File:
    """A valid F32 file as lists that can be changed: keys [name, kind, value], tensors
    [name, dims, data]."""

    def __init__(self, path):
        self.data = open(path, "rb").read()
        self.at = 24
        assert self.data[:8] == b"GGUF" + u32(3)
        tensor_count, key_count = struct.unpack("<QQ", self.data[8:24])
        self.keys = []
        for _ in range(key_count):
            name, kind = self._string(), self._take("<I")
            self.keys.append([name, kind, self._value(kind)])
        infos = []
        for _ in range(tensor_count):
            name = self._string()
            dims = [self._take("<Q") for _ in range(self._take("<I"))]
            assert self._take("<I") == 0, "F32 only"
            infos.append((name, dims, self._take("<Q")))
        base = self.at + -self.at % 32
        self.tensors = []
        for name, dims, offset in infos:
            size = 4
            for d in dims:
                size *= d
            self.tensors.append([name, dims, self.data[base + offset:base + offset + size]])

    def _take(self, form):
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def _string(self):
        length = self._take("<Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def _value(self, kind):
        """The value's own bytes."""
        start = self.at
        if kind == STRING:
            self._string()
        elif kind == ARRAY:
            inner, count = self._take("<I"), self._take("<Q")
            for _ in range(count):
                self._value(inner)
        else:
            self._take(FIXED[kind])
        return self.data[start:self.at]

    def set(self, name, kind, value):
        """Change or add a key; value is a number, a text, or bytes as they are stored."""
        if kind == STRING:
            value = string(value)
        elif not isinstance(value, bytes):
            value = struct.pack(FIXED[kind], value)
        self.drop_key(name)
        self.keys.append([name, kind, value])
        return self

    def drop_key(self, name):
        self.keys = [k for k in self.keys if k[0] != name]
        return self

    def find(self, name):
        return next(t for t in self.tensors if t[0] == name)

    def drop_tensor(self, name):
        assert any(t[0] == name for t in self.tensors), name
        self.tensors = [t for t in self.tensors if t[0] != name]
        return self

    def write(self, path):
        out = header(len(self.tensors), len(self.keys))
        for name, kind, value in self.keys:
            out += key(name, kind, value)
        offset = 0
        for name, dims, data in self.tensors:
            out += tensor(name, dims, 0, offset)
            offset += len(padded(data))
        out = padded(out)
        for _, _, data in self.tensors:
            out += padded(data)
        path.write_bytes(out)
        return path
