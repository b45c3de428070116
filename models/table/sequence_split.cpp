#include "models/table/sequence_split.hpp"

#include <fmt/format.h>

#include <string>

#include "models/table/model_spec.hpp"

namespace troupe::models {

dealt_heads heads_of(const model_spec& block, const sequence_split& split) {
  const uint32_t shared = block.heads / block.kv_heads;
  dealt_heads out{.head_width = block.head_width};
  const auto fits = [&] { return uint64_t{block.kv_heads} * out.repeats >= split.degree && shared % out.repeats == 0; };
  while (out.repeats < shared && !fits()) ++out.repeats;
  out.group = shared / out.repeats;
  out.kv = core::dealt(uint64_t{block.kv_heads} * out.repeats, split.degree);
  return out;
}

core::result<void> check_sequence(const model_spec& local, uint64_t columns, const sequence_split& split) {
  const auto refuse = [&](const std::string& what, uint64_t most) {
    return core::fail(core::error_kind::bad_input,
                      fmt::format("wanted at most {} ranks, one for each {}, got {}", most, what, split.degree));
  };
  if (split.way == sequence_way::heads && split.degree > local.heads)
    return refuse("attention head of a rank", local.heads);
  if (split.degree > columns) return refuse("token of a sample", columns);
  return {};
}

}  // namespace troupe::models
