/* The web page: its files as they lie in page/, put into the program by the assembler. */
#include <string.h>

#include "server/server_internal.h"

/* Read when this file is compiled, from the repository's root; the Makefile knows of it.  A zero
 * byte stands behind each. */
#define FILE_BYTES(name, path)                                                                     \
    extern const char name[], name##_end[];                                                        \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"" path "\"\n" #name                       \
            "_end:\n.byte 0\n.popsection\n")

FILE_BYTES(page_html, "src/server/page/page.html");
FILE_BYTES(page_css, "src/server/page/page.css");
FILE_BYTES(page_js, "src/server/page/page.js");

static const struct {
    const char *path, *type, *bytes, *end;
} files[] = {
    {"/", "text/html; charset=utf-8", page_html, page_html_end},
    {"/page.css", "text/css; charset=utf-8", page_css, page_css_end},
    {"/page.js", "text/javascript; charset=utf-8", page_js, page_js_end},
};

void gp_page_send(struct gp_server *server, struct gp_exchange *ex)
{
    (void)server;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (strcmp(files[i].path, ex->path) != 0)
            continue;
        ex->reply.status = 200;
        ex->reply.type = files[i].type;
        ex->reply.page = true;
        gp_buffer_add(&ex->reply.body, files[i].bytes, (size_t)(files[i].end - files[i].bytes));
    }
}
