// The effective configuration: every key's value and where it comes from, and the model's keys as one JSON object.
#pragma once

#include "config/load.hpp"
#include "config/open_degrees.hpp"
#include "config/rules/resolve.hpp"

namespace troupe::config {

/// Fills in `values` and `given` from what was given, what was derived from it and the finished `config`.
void describe(const settings& given, const origins& derived, const std::vector<source>& sources, loaded& out);

/// Values that differ between the ways of a job whose degrees are open become `auto`.
void mark_open(const open_degrees& open, loaded& out);

/// The inline model keys as Hugging Face writes them; empty when there are none.
std::string model_as_json(const settings& given);

}  // namespace troupe::config
