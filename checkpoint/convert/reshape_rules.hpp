// Chooses the rules by which a source's parameters are cut over tensor-parallel ranks: the caller's rules, rules that
// the source's writer published, the rules for Megatron's names, a job's own plan, or the rules for Hugging Face's
// GPT-2 and Llama.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "formats/megatron/source.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::checkpoint {

struct chosen_rules {
  formats::rule_chooser rule;  ///< returns a parameter's cut by its name in the source; buffers are never cut
  bool are_megatrons = false;
  formats::qkv_version version = formats::qkv_version::v0;  ///< order of the rows in Megatron's query_key_value tensors
};

/// How a job of Troupe cuts parameters over `ranks` ranks. A cut over the same number of ranks that the source itself
/// records takes precedence.
struct own_cuts {
  formats::parameter_cuts by_name = {};
  uint32_t ranks = 1;
};

/// Chooses the rules for `of`, which must outlive them. `patterns`, if given, replaces all other rules. `version` is
/// that of Megatron's query_key_value; if missing, `checkpoint_version` in the source's client state, else 0. Published
/// widths, which are for other numbers of ranks, are ignored: parts are cut as DeepSpeed's AutoTP does, which gives the
/// first ranks one element more each if the ranks do not divide a size. A model with unknown names is not cut at all.
core::result<chosen_rules> choose_rules(const formats::tensor_source& of,
                                        const std::optional<formats::universal_patterns>& patterns,
                                        std::optional<double> version, own_cuts cuts = {});

/// Returns the rule for a parameter of GPT-2 (with matrices as (in, out)) or of Llama and related models, by the end of
/// its name: heads and inner dimensions are cut, vocabularies are padded if necessary; nothing for all other names. The
/// number of heads is not known here: key and value heads that the ranks do not divide are cut through.
std::optional<formats::cut_rule> hugging_face_rule(std::string_view name, const std::vector<int64_t>& shape);

}  // namespace troupe::checkpoint
