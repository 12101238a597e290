# growpage: make setup | all | demo | test | test-long | oracles | paper | install | uninstall | clean | tidy
#
# CONFIG=release|debug|asan|tsan|cov|fuzz   CC=gcc|clang   MODEL=FILE (demo, paper)
# QUICK=1, PAPER_N=N (paper)

CONFIG ?= release
ifeq ($(origin CC),default)
CC     := gcc
endif
PREFIX ?= /usr/local
VERSION := $(shell cat VERSION)
B      := build/$(CC)-$(CONFIG)
PY     := build/venv/bin/python
SMOLLM := models/smollm2-135m-instruct-q4_1.gguf

LIBS   := jansson libpcre2-8 libutf8proc
# What the program needs beside the library's, and of those what its parts do.
EVAL_LIBS := libxxhash libcurl zlib
SERVER_LIBS := libmicrohttpd
PROGRAM_LIBS := libedit $(EVAL_LIBS) $(SERVER_LIBS)
WARN   := -Wall -Wextra -Wshadow -Wvla -Wundef -Wstrict-prototypes -Wmissing-prototypes \
          -Wpointer-arith -Wwrite-strings -Wno-missing-field-initializers -Werror
COMMON  = -std=gnu11 -g -fno-omit-frame-pointer -ffp-contract=off -fno-math-errno -fPIC \
          -fvisibility=hidden -pthread -D_GNU_SOURCE -DGP_VERSION='"$(VERSION)"' \
          -Iinclude -Isrc -Itests $(shell pkg-config --cflags $(LIBS)) $(WARN)

CFLAGS_release := -O2
CFLAGS_debug   := -O1 -DGP_DEBUG
CFLAGS_asan    := -O1 -DGP_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=all
CFLAGS_tsan    := -O1 -DGP_DEBUG -fsanitize=thread
CFLAGS_cov     := -O0 -DGP_DEBUG --coverage
CFLAGS_fuzz    := -O1 -DGP_DEBUG -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
CFLAGS_$(CONFIG) ?= $(error CONFIG must be release, debug, asan, tsan, cov or fuzz)

# The whole program runs on any x86-64.  Only these files may use more, and the dispatcher calls them
# only after CPUID and the operating system agreed.  Tests spend their time here: -O2 in every build.
ISA_avx2   := -O2 -mavx2 -mfma -mf16c -mbmi2
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
isa         = $(foreach i,avx2 avx512,$(if $(findstring _$i.c,$1),$(ISA_$i)))

# Debug builds wrap malloc, to catch an allocation on a thread that has promised none.
WRAP_debug := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
WRAP_asan  := $(WRAP_debug)
WRAP_tsan  := $(WRAP_debug)
WRAP_cov   := $(WRAP_debug)
WRAP_fuzz  := $(WRAP_debug)

LIB_ROOMS := base kernels kv text policy model engine
LIB_SRC   := $(foreach r,$(LIB_ROOMS),$(wildcard src/$r/*.c src/$r/*/*.c))
CLI_SRC   := $(wildcard src/cli/*.c)
# Parts of the program, not of the library: they see no more than growpage.h and base.
EVAL_SRC  := $(wildcard src/eval/*.c)
SERVER_SRC := $(wildcard src/server/*.c)
LIB_OBJ   := $(LIB_SRC:%.c=$B/%.o)
CLI_OBJ   := $(CLI_SRC:%.c=$B/%.o)
EVAL_OBJ  := $(EVAL_SRC:%.c=$B/%.o)
SERVER_OBJ := $(SERVER_SRC:%.c=$B/%.o)
LDLIBS     = $(shell pkg-config --libs $(LIBS)) -lm -pthread
LINK       = $(CC) $(CFLAGS_$(CONFIG)) $(WRAP_$(CONFIG)) $(LDFLAGS)

# A test is tests/<room>/test_*.c; other C files beside it are helpers that every test may link.
TEST_SRC  := $(wildcard tests/*/test_*.c)
TEST_AUX  := $(filter-out $(TEST_SRC) $(wildcard tests/fuzz/*.c),$(wildcard tests/*/*.c))
TESTS     := $(TEST_SRC:%.c=$B/%)
FUZZERS   := $(patsubst %.c,$B/%,$(wildcard tests/fuzz/fuzz_*.c))

# One short line a command; V=1 shows them whole.
say = $(if $(V),,@printf '  %-5s %s\n' $1 $2;)
# demo and its like build with all processors, unless they were told with how many.
jobs = --no-print-directory $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))

.DEFAULT_GOAL := all
all: $B/growpage $B/libgrowpage.a $B/libgrowpage.so $B/growpage.pc links
links: $B/growpage $B/libgrowpage.a $B/libgrowpage.so $B/growpage.pc
	@for f in growpage libgrowpage.a libgrowpage.so growpage.pc; do ln -sfn $(CC)-$(CONFIG)/$$f build/$$f; done

$B/%.o: %.c $B/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(COMMON) $(CFLAGS_$(CONFIG)) $(call isa,$<) $(CFLAGS) -MMD -MP -c $< -o $@

# The web page is put into the program by the assembler, which tells nobody of what it reads.
$B/src/server/page.o: $(wildcard src/server/page/*)

# So is the driver of the sandbox.
$B/src/eval/sandbox.o: src/eval/sandbox.py

$B/libgrowpage.a: $(LIB_OBJ)
	@rm -f $@
	$(call say,AR,$@)ar rcs $@ $^
$B/libgrowpage.so: $(LIB_OBJ)
	$(call say,LD,$@)$(CC) $(CFLAGS_$(CONFIG)) $(WRAP_$(CONFIG)) $(LDFLAGS) -shared -Wl,-soname,libgrowpage.so.0 $^ $(LDLIBS) -o $@
$B/growpage: $(CLI_OBJ) $(EVAL_OBJ) $(SERVER_OBJ) $B/libgrowpage.a
	$(call say,LD,$@)$(LINK) $^ $(LDLIBS) $(shell pkg-config --libs $(PROGRAM_LIBS)) -o $@
$B/growpage.pc: tools/growpage.pc.in VERSION FORCE
	@mkdir -p $(@D)
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' $< > $@

$B/tests/%: $B/tests/%.o $(TEST_AUX:%.c=$B/%.o) $B/libgrowpage.a
	$(call say,LD,$@)$(LINK) $^ -lcmocka $(LDLIBS) -o $@
# What these share with the tests of their room; the library comes last on their command line.
$B/tools/make_model: $(patsubst %,$B/tests/model/%.o,model_maker model_script model_tokens quantize)
$B/tests/fuzz/fuzz_gguf: $B/tests/model/gguf_bytes.o
$B/tests/fuzz/fuzz_tokenizer $B/tests/fuzz/fuzz_schema: $B/tests/text/small_vocab.o
$B/tests/fuzz/fuzz_trace: $B/src/eval/timeline.o
$B/tests/fuzz/fuzz_answer: $(patsubst %,$B/src/eval/%.o,answer answer_tokens answer_parse answer_value grade outputs)
$B/tools/oracle/answer_same: $(patsubst %,$B/src/eval/%.o,answer answer_tokens answer_parse answer_value)
# A driver is libFuzzer's under clang's CONFIG=fuzz; elsewhere it runs the files it is given.
FUZZ_MAIN := $(if $(filter fuzz,$(CONFIG)),,$B/tests/fuzz/standalone.o)
$B/tests/fuzz/fuzz_%: $B/tests/fuzz/fuzz_%.o $(FUZZ_MAIN) $B/libgrowpage.a
	$(call say,LD,$@)$(LINK) $(if $(FUZZ_MAIN),,-fsanitize=fuzzer) $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS) -o $@
$B/tools/%: $B/tools/%.o $B/libgrowpage.a
	$(call say,LD,$@)$(LINK) $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS) -o $@
$B/bench/%: $B/bench/%.o $B/libgrowpage.a
	$(call say,LD,$@)$(LINK) $^ $(LDLIBS) -o $@

# The command line's tests see its parts; only main.c stays out.
$B/tests/cli/%: $B/tests/cli/%.o $(filter-out %/main.o,$(CLI_OBJ)) $(EVAL_OBJ) $(SERVER_OBJ) $B/libgrowpage.a
	$(call say,LD,$@)$(LINK) $^ -lcmocka $(LDLIBS) $(shell pkg-config --libs $(PROGRAM_LIBS)) -o $@
$B/tests/eval/%: $B/tests/eval/%.o $(TEST_AUX:%.c=$B/%.o) $(EVAL_OBJ) $B/libgrowpage.a
	$(call say,LD,$@)$(LINK) $^ -lcmocka $(LDLIBS) $(shell pkg-config --libs $(EVAL_LIBS)) -o $@

$B/tests/server/%: $B/tests/server/%.o $(TEST_AUX:%.c=$B/%.o) $(SERVER_OBJ) $B/libgrowpage.a
	$(call say,LD,$@)$(LINK) $^ -lcmocka $(LDLIBS) $(shell pkg-config --libs $(SERVER_LIBS)) -o $@

# Objects depend on the flags they were built with.
$B/flags: FORCE
	@mkdir -p $B
	@echo '$(CC) $(COMMON) $(CFLAGS_$(CONFIG)) $(CFLAGS) $(LDFLAGS)' | cmp -s - $@ || \
	 echo '$(CC) $(COMMON) $(CFLAGS_$(CONFIG)) $(CFLAGS) $(LDFLAGS)' > $@

# ---- what people type. demo and test each do their own set-up, so the real work is a second make: the
# first may run on a machine that has no compiler yet.
setup:
	@tools/setup
model: $(SMOLLM)
$(SMOLLM):
	@tools/fetch-model $@
venv: build/venv/.ready
# After the model, for both make build/venv.
build/venv/.ready: tests/requirements.txt tools/venv | $(SMOLLM)
	@tools/venv
demo:
	@tools/setup
	@$(MAKE) $(jobs) all
	@tools/demo $(MODEL)
test:
	@tools/setup
	@$(MAKE) $(jobs) run-fuzz-regressions
	@tools/check-pages
	@$(MAKE) $(jobs) run-tests
test-long:
	@tools/setup
	@$(MAKE) $(jobs) all model venv tests-built
	@tools/test-long $B

tests-built: $(TESTS) $B/tools/make_model $B/tools/dump_boundaries
run-tests: all model venv tests-built
	@GP_BUILD=$B tests/run --py $(PY) $(wildcard tests/*/test_*.py) -- $(TESTS)
# The C tests alone, in any CONFIG; ROOMS="base engine" runs those of some rooms.
run-c-tests: model tests-built
	@GP_BUILD=$B tests/run $(if $(ROOMS),$(foreach r,$(ROOMS),$(filter $B/tests/$r/%,$(TESTS))),$(TESTS))
fuzzers: $(FUZZERS)
run-fuzz-regressions: $(FUZZERS)
	@for f in $(FUZZERS:$B/tests/fuzz/fuzz_%=%); do log=$B/tests/fuzz/$$f.log; \
	    $B/tests/fuzz/fuzz_$$f tests/fuzz/corpus/$$f tests/fuzz/regression/$$f >$$log 2>&1 || \
	    { tail -50 $$log; exit 1; }; \
	    echo "fuzz/$$f: $$(tail -1 $$log)"; done
oracles:
	@tools/setup
	@$(MAKE) $(jobs) all model venv tests-built
	@tools/oracle/all.sh
# Every table and figure of the paper on one page, build/paper/report.html; a broken-off run goes on.
PAPER_N ?= $(if $(QUICK),100,500)
paper:
	@tools/setup
	@$(MAKE) $(jobs) all model
	@GP_BUILD=$B tools/paper --n $(PAPER_N) $(if $(MODEL),--model $(MODEL))
tidy:
	@tools/tidy

install: all
	install -D -m 755 $B/growpage $(DESTDIR)$(PREFIX)/bin/growpage
	install -D -m 644 $B/libgrowpage.a $(DESTDIR)$(PREFIX)/lib/libgrowpage.a
	install -D -m 755 $B/libgrowpage.so $(DESTDIR)$(PREFIX)/lib/libgrowpage.so.0
	ln -sf libgrowpage.so.0 $(DESTDIR)$(PREFIX)/lib/libgrowpage.so
	install -D -m 644 $B/growpage.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/growpage.pc
	install -D -m 644 models/growpage-reasoner.gguf $(DESTDIR)$(PREFIX)/share/growpage/growpage-reasoner.gguf
	install -D -m 644 man/growpage.1 $(DESTDIR)$(PREFIX)/share/man/man1/growpage.1
	for h in include/*.h; do install -D -m 644 $$h $(DESTDIR)$(PREFIX)/$$h || exit 1; done
	@$(if $(DESTDIR),:,ldconfig 2>/dev/null || :)
uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/growpage lib/libgrowpage.a lib/libgrowpage.so \
	    lib/libgrowpage.so.0 lib/pkgconfig/growpage.pc share/growpage/growpage-reasoner.gguf share/man/man1/growpage.1 $(wildcard include/*.h))
clean:
	rm -rf build/*-release build/*-debug build/*-asan build/*-tsan build/*-cov build/*-fuzz build/growpage* build/libgrowpage*

-include $(shell find $B -name '*.d' 2>/dev/null)
.PHONY: all links setup model venv demo test test-long tests-built run-tests run-c-tests \
        fuzzers run-fuzz-regressions oracles paper tidy install uninstall clean FORCE
.SECONDARY:
