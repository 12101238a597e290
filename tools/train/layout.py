"""What the trainer and the exporter agree on: the model's shape and its tokens.

No torch here: the exporter, and the tests of it, do without.
"""
from dataclasses import asdict, dataclass

# One byte, one token: nothing to train, and every digit of a number is seen by itself.  The special
# tokens follow; the vocabulary is rounded up to whole blocks of 32, as Q8_0 and SIMD like it.
END_OF_TEXT, TURN_START, TURN_END, THINK, THINK_END = range(256, 261)
SPECIALS = {
    END_OF_TEXT: b"<|endoftext|>",
    TURN_START: b"<|im_start|>",
    TURN_END: b"<|im_end|>",
    THINK: b"<think>",
    THINK_END: b"</think>",
}
VOCAB = 288

# ChatML.  What an assistant thought is not shown to it again, as in Qwen3's template.
CHAT_TEMPLATE = r"""
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
""".strip()


@dataclass(frozen=True)
class Shape:
    """The hyper-parameters of a Qwen3 model, under the names that GGUF has for them."""

    embed: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    ffn: int = 640
    context: int = 4096
    rope_base: float = 1e6
    rms_eps: float = 1e-6
    vocab: int = VOCAB

    def matrices(self):
        """Tensor name -> (rows, columns), in the order of the file; rows are outputs."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shapes = {"token_embd.weight": (self.vocab, self.embed)}
        for i in range(self.layers):
            shapes |= {
                f"blk.{i}.attn_q.weight": (queries, self.embed),
                f"blk.{i}.attn_k.weight": (keys, self.embed),
                f"blk.{i}.attn_v.weight": (keys, self.embed),
                f"blk.{i}.attn_output.weight": (self.embed, queries),
                f"blk.{i}.ffn_gate.weight": (self.ffn, self.embed),
                f"blk.{i}.ffn_up.weight": (self.ffn, self.embed),
                f"blk.{i}.ffn_down.weight": (self.embed, self.ffn),
            }
        return shapes

    def norms(self):
        """Tensor name -> (elements,)."""
        shapes = {"output_norm.weight": (self.embed,)}
        for i in range(self.layers):
            shapes |= {
                f"blk.{i}.attn_norm.weight": (self.embed,),
                f"blk.{i}.attn_q_norm.weight": (self.head_dim,),
                f"blk.{i}.attn_k_norm.weight": (self.head_dim,),
                f"blk.{i}.ffn_norm.weight": (self.embed,),
            }
        return shapes

    def as_dict(self):
        return asdict(self)
