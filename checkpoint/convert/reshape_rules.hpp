// Chooses the rules by which a source's parameters are cut over tensor-parallel ranks: the caller's, those that the
// source's writer published, those of Megatron's names, a job's own plan, or those of Hugging Face's GPT-2 and Llama.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "checkpoint/megatron/source.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct chosen_rules {
  rule_chooser rule;  ///< by a parameter's name in the source; buffers are never cut
  bool are_megatrons = false;
  qkv_version version = qkv_version::v0;  ///< of Megatron's query_key_value
};

/// How a job of ours cuts parameters over `ranks` ranks. A source that says its own cut over as many is right before.
struct own_cuts {
  parameter_cuts by_name = {};
  uint32_t ranks = 1;
};

/// `patterns`: said by the caller. `version`: of query_key_value; none: `checkpoint_version` in the source's client
/// state, else 0. Widths that were published for other numbers of ranks are left out: parts are cut as AutoTP does, the
/// first ranks one more. A model whose names nobody knows is not cut at all. The source outlives the rules.
core::result<chosen_rules> choose_rules(const tensor_source& of, const std::optional<universal_patterns>& patterns,
                                        std::optional<double> version, own_cuts cuts = {});

/// The rule for a parameter of GPT-2 (with matrices as (in, out)) or of Llama and its kin, by its name's end: heads and
/// inner dimensions are cut, vocabularies are padded where they must be; nothing for all others. Heads are not known
/// here: key and value heads that the ranks do not divide are cut through.
std::optional<cut_rule> hugging_face_rule(std::string_view name, const std::vector<int64_t>& shape);

}  // namespace troupe::checkpoint
