#include "checkpoint/gguf/families.hpp"

#include <array>
#include <charconv>
#include <span>

namespace troupe::checkpoint {
namespace {

/// A model's name and a file's name for the same parameters: `#` stands for a block's number, a final `*` for `weight`
/// or `bias`.
struct pair {
  std::string_view ours, theirs;
  gguf_order weight = gguf_order::same, bias = gguf_order::same;
};

constexpr std::array gpt2{
    pair{"wte.weight", gguf_embedding_name},
    pair{"wpe.weight", gguf_positions_name},
    pair{"ln_f.*", "output_norm.*"},
    pair{"lm_head.weight", gguf_head_name},
    pair{"h.#.ln_1.*", "blk.#.attn_norm.*"},
    pair{"h.#.attn.c_attn.*", "blk.#.attn_qkv.*", gguf_order::transposed},
    pair{"h.#.attn.c_proj.*", "blk.#.attn_output.*", gguf_order::transposed},
    pair{"h.#.ln_2.*", "blk.#.ffn_norm.*"},
    pair{"h.#.mlp.c_fc.*", "blk.#.ffn_up.*", gguf_order::transposed},
    pair{"h.#.mlp.c_proj.*", "blk.#.ffn_down.*", gguf_order::transposed},
};
constexpr std::array llama{
    pair{"embed_tokens.weight", gguf_embedding_name},
    pair{"norm.weight", "output_norm.weight"},
    pair{"lm_head.weight", gguf_head_name},
    pair{"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    pair{"layers.#.self_attn.q_proj.*", "blk.#.attn_q.*", gguf_order::query_rotary, gguf_order::query_rotary},
    pair{"layers.#.self_attn.k_proj.*", "blk.#.attn_k.*", gguf_order::key_rotary, gguf_order::key_rotary},
    pair{"layers.#.self_attn.v_proj.*", "blk.#.attn_v.*"},
    pair{"layers.#.self_attn.o_proj.*", "blk.#.attn_output.*"},
    pair{"layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
    pair{"layers.#.mlp.gate_proj.*", "blk.#.ffn_gate.*"},
    pair{"layers.#.mlp.up_proj.*", "blk.#.ffn_up.*"},
    pair{"layers.#.mlp.down_proj.*", "blk.#.ffn_down.*"},
};

std::span<const pair> pairs_of(std::string_view architecture) {
  if (architecture == "gpt2") return gpt2;
  if (architecture == "llama") return llama;
  return {};
}

/// The texts that `#` and `*` of a pattern matched in a name.
struct match {
  std::string_view number, ending;
};

std::optional<match> matched(std::string_view pattern, std::string_view name) {
  match out;
  while (!pattern.empty()) {
    if (pattern.front() == '#') {
      while (!name.empty() && name.front() >= '0' && name.front() <= '9' && out.number.size() < 9) {
        out.number = {out.number.empty() ? name.data() : out.number.data(), out.number.size() + 1};
        name.remove_prefix(1);
      }
      if (out.number.empty()) return std::nullopt;
    } else if (pattern.front() == '*') {
      if (name != "weight" && name != "bias") return std::nullopt;
      out.ending = name;
      return out;
    } else {
      if (name.empty() || name.front() != pattern.front()) return std::nullopt;
      name.remove_prefix(1);
    }
    pattern.remove_prefix(1);
  }
  return name.empty() ? std::optional(out) : std::nullopt;
}

std::string filled(std::string_view pattern, const match& m) {
  std::string out;
  for (const char c : pattern) {
    if (c == '#')
      out += m.number;
    else if (c == '*')
      out += m.ending;
    else
      out += c;
  }
  return out;
}

std::optional<gguf_place> look_up(std::string_view architecture, std::string_view name, std::string_view pair::*from,
                                  std::string_view pair::*to) {
  for (const auto& p : pairs_of(architecture)) {
    const auto m = matched(p.*from, name);
    if (!m) continue;
    gguf_place out{filled(p.*to, *m), m->ending == "bias" ? p.bias : p.weight};
    if (!m->number.empty()) {
      uint32_t block = 0;
      std::from_chars(m->number.data(), m->number.data() + m->number.size(), block);
      out.block = block;
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::optional<gguf_place> gguf_place_of(std::string_view architecture, std::string_view bare_name) {
  return look_up(architecture, bare_name, &pair::ours, &pair::theirs);
}

std::optional<gguf_place> parameter_of(std::string_view architecture, std::string_view gguf_name) {
  return look_up(architecture, gguf_name, &pair::theirs, &pair::ours);
}

}  // namespace troupe::checkpoint
