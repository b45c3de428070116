// Computes the effective configuration: every key's value with its origin, and the model's keys as one JSON object.
#pragma once

#include "config/load.hpp"
#include "config/open_degrees.hpp"
#include "config/rules/resolve.hpp"

namespace troupe::config {

/// Fills in `values` and `given` of `out` from the values that the file gives, the values that the rules have derived,
/// and the finished `config`.
void describe(const settings& given, const origins& derived, const std::vector<source>& sources, loaded& out);

/// Sets to `auto`, in `out`, each value that depends on the choice of the open degrees (the parallel degrees that are
/// `auto`), since it differs between the possible choices.
void mark_open(const open_degrees& open, loaded& out);

/// Returns the inline model keys as JSON with Hugging Face's names; empty if there are none.
std::string model_as_json(const settings& given);

}  // namespace troupe::config
