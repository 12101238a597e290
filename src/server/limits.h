/* Every bound that the server puts on what a client sends. */
#ifndef GP_SERVER_LIMITS_H
#define GP_SERVER_LIMITS_H

#include "base/limits.h"

#define GP_LIMIT_BODY_BYTES   (32u << 20)  /* of a request, unless told otherwise */
#define GP_LIMIT_BODIES_BYTES (256u << 20) /* of all requests together */
#define GP_LIMIT_HEADER_BYTES (48u << 10)  /* what the library has for a connection */

#define GP_LIMIT_JSON_DEPTH  64u        /* brackets within brackets                              */
#define GP_LIMIT_JSON_VALUES (2u << 20) /* of one body */
#define GP_LIMIT_STOPS       16u        /* stop strings of a request                             */
#define GP_LIMIT_STOP_BYTES  1024u      /* of one                                                */
#define GP_LIMIT_SALT_BYTES  256u       /* of cache_salt                                         */
#define GP_LIMIT_BIASES      1024u      /* entries of logit_bias                                 */
#define GP_LIMIT_PROMPTS     256u       /* of one request                                        */
#define GP_LIMIT_ANSWERS     256u       /* prompts times n                                       */
#define GP_LIMIT_TOOLS       127u       /* of one chat; beside them stands a document           */
#define GP_LIMIT_MESSAGES    4096u      /* of one chat                                           */
#define GP_LIMIT_KEYS        256u       /* API keys                                              */
#define GP_LIMIT_KEY_BYTES   255u       /* of one                                                */
#define GP_LIMIT_CONNECTIONS 1024u      /* open at once                                          */
#define GP_LIMIT_WATCHERS    64u        /* of those, listening to /v1/kv/events                  */

/* What a client that does not read leaves unsent; the engine's tokens wait where they are. */
#define GP_LIMIT_UNSENT_BYTES (256u << 10)

#define GP_HEADER_SECONDS 10u /* from the first byte of a request to its empty line            */
#define GP_IDLE_SECONDS   60u /* of a kept connection between requests                         */
#define GP_BODY_SECONDS   60u /* from the headers to the last byte of the body                 */
#define GP_PING_SECONDS   15u /* of a stream without a byte, then a comment is sent            */
#define GP_WRITE_SECONDS  60u /* without a byte taken from what waits to be sent               */

#endif
