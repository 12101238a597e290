/* Every bound that more than one room relies on, in one place, with what follows from it. */
#ifndef GP_BASE_LIMITS_H
#define GP_BASE_LIMITS_H

#include <stdint.h>

#define GP_LIMIT_SEQS         512u     /* requests running at once; sizes the query summaries */
#define GP_LIMIT_BATCH_TOKENS 4096u    /* rows of one step; sizes every activation buffer     */
#define GP_LIMIT_CONTEXT      1048576u /* tokens of one request                               */
#define GP_LIMIT_PAGE_TOKENS  4096u    /* slots of one page                                   */
#define GP_LIMIT_THREADS      256u     /* workers of one engine                               */
#define GP_LIMIT_LAYERS       1024u    /* blocks of a model                                   */
#define GP_LIMIT_HEADS        1024u    /* query heads of a layer                              */
#define GP_LIMIT_HEAD_DIM     512u     /* elements of one head                                */
#define GP_LIMIT_EMBED        65536u   /* elements of one activation row                      */
#define GP_LIMIT_VOCAB        1048576u /* tokens of a vocabulary                              */
#define GP_LIMIT_CHOICES      128u     /* n of one request                                    */
#define GP_LIMIT_LOGPROBS     20u      /* alternatives reported per token                     */
#define GP_LIMIT_STOP_IDS     64u      /* end tokens of one request                           */

/* A slot count is rounded up to tiles of this many; a page is a whole number of tiles. */
#define GP_TILE_TOKENS 16u

_Static_assert(GP_LIMIT_PAGE_TOKENS % GP_TILE_TOKENS == 0, "a page is a whole number of tiles");
_Static_assert(GP_LIMIT_BATCH_TOKENS >= GP_LIMIT_SEQS, "a step can decode every sequence");
_Static_assert((uint64_t)GP_LIMIT_CONTEXT + GP_LIMIT_PAGE_TOKENS < UINT32_MAX, "slots fit u32");

#endif
