"""libgrowpage's guides, called through its shared library."""

import ctypes

import numpy
from program import BUILD


class Form(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_char_p), ("schema", ctypes.c_char_p), ("end", ctypes.c_char_p)]


class Source(ctypes.Structure):
    _fields_ = [("forms", ctypes.POINTER(Form)), ("form_count", ctypes.c_uint32),
                ("separator", ctypes.c_char_p), ("thought", ctypes.c_int)]


class ModelOptions(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("threads", ctypes.c_uint32), ("cpu", ctypes.c_char_p),
                ("vocab_only", ctypes.c_bool), ("override_pre", ctypes.c_bool),
                ("chat_template", ctypes.c_char_p), ("progress", ctypes.c_void_p),
                ("progress_ctx", ctypes.c_void_p)]


class Error(ctypes.Structure):
    _fields_ = [("message", ctypes.c_char * 512)]


class Refused(Exception):
    pass


NO_THOUGHT, MAY_THINK, THINKS = range(3)


def load():
    lib = ctypes.CDLL(str(BUILD / "libgrowpage.so"))
    lib.gp_model_ends.restype = ctypes.POINTER(ctypes.c_int32)
    lib.gp_guide_take.restype = lib.gp_guide_may_end.restype = ctypes.c_bool
    for name in ("gp_model_close", "gp_guide_close", "gp_free", "gp_guide_may_end"):
        getattr(lib, name).argtypes = [ctypes.c_void_p, ctypes.c_uint32][:1 + ("may" in name)]
    lib.gp_guide_take.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int32]
    lib.gp_guide_mask.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p]
    return lib


class Vocabulary:
    """A model's tokens, without its weights."""

    def __init__(self, path):
        self.lib = load()
        self.model = ctypes.c_void_p()
        self.check(self.lib.gp_model_open, ctypes.byref(self.model), ctypes.byref(
            ModelOptions(path=path.encode(), vocab_only=True)))
        count = ctypes.c_uint32()
        ends = self.lib.gp_model_ends(self.model, ctypes.byref(count))
        self.ends = {ends[i] for i in range(count.value)}
        self.texts = []
        while True:
            try:
                self.texts.append(self.text([len(self.texts)]))
            except Refused:
                break

    def check(self, function, *args):
        error = Error()
        if function(*args, ctypes.byref(error)):
            raise Refused(error.message.decode())

    def text(self, ids):
        text, length = ctypes.c_char_p(), ctypes.c_size_t()
        array = (ctypes.c_int32 * len(ids))(*ids)
        self.check(self.lib.gp_model_detokenize, self.model, array, ctypes.c_uint32(len(ids)),
                   ctypes.c_bool(False), ctypes.byref(text), ctypes.byref(length))
        made = ctypes.string_at(text, length.value)
        self.lib.gp_free(text)
        return made

    def tokens(self, data):
        ids, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_uint32()
        self.check(self.lib.gp_model_tokenize, self.model, data, ctypes.c_size_t(len(data)),
                   ctypes.c_bool(False), ctypes.c_bool(False), ctypes.byref(ids),
                   ctypes.byref(count))
        made = ids[:count.value]
        self.lib.gp_free(ids)
        return made

    def guide(self, *forms, separator=None, thought=NO_THOUGHT, choices=1):
        return Guide(self, forms, separator, thought, choices)


class Guide:
    """forms: (begin, schema as text or None, end)."""

    def __init__(self, vocabulary, forms, separator, thought, choices):
        self.vocabulary, self.lib = vocabulary, vocabulary.lib
        array = (Form * len(forms))(*[Form(*(part if part is None else part.encode()
                                             for part in form)) for form in forms])
        source = Source(array, len(forms), separator.encode() if separator else None, thought)
        self.handle = ctypes.c_void_p()
        vocabulary.check(self.lib.gp_guide_open, ctypes.byref(self.handle), vocabulary.model,
                         ctypes.byref(source), ctypes.c_uint32(choices))

    def __del__(self):
        if getattr(self, "handle", None):
            self.lib.gp_guide_close(self.handle)

    def allowed(self, choice=0):
        """For each id, whether it may come next."""
        words = (len(self.vocabulary.texts) + 63) // 64
        mask = (ctypes.c_uint64 * words)(*[2**64 - 1] * words)
        self.lib.gp_guide_mask(self.handle, choice, mask)
        bits = numpy.unpackbits(numpy.frombuffer(mask, numpy.uint8), bitorder="little")
        return bits[:len(self.vocabulary.texts)].astype(bool)

    def take(self, token, choice=0):
        return self.lib.gp_guide_take(self.handle, choice, token)

    def may_end(self, choice=0):
        return self.lib.gp_guide_may_end(self.handle, choice)

    def accepts(self, data, choice=0):
        """Whether the text, split as the tokenizer splits it, is allowed token by token."""
        for token in self.vocabulary.tokens(data):
            if not self.allowed(choice)[token]:
                return False
            self.take(token, choice)
        return self.may_end(choice)
