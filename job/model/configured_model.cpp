#include "job/model/configured_model.hpp"

#include <fmt/format.h>

#include <utility>

#include "job/model/adapters.hpp"
#include "job/model/folder_model.hpp"

namespace troupe::job {

core::result<configured_model> read_model(const config::job_config& config) {
  const auto& m = config.model;
  TROUPE_ASSIGN(auto spec, m.path.empty() ? models::parse_model_spec(m.hugging_face_json)
                                          : read_folder_model(m.path, m.ignore_keys));
  const uint64_t sequence = config.data.sequence_length > 0 ? config.data.sequence_length : spec.longest();
  if (sequence > spec.longest())
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("data.sequence_length: wanted at most the model's {} positions, got {}", spec.longest(), sequence));
  auto adapters = choose_adapters(config.lora, spec);
  if (!adapters) {
    const auto& why = adapters.error();
    return core::fail(why.kind, fmt::format("{}: {}", why.key, why.text));
  }
  spec.adapters = std::move(*adapters);
  return configured_model{std::move(spec), sequence};
}

}  // namespace troupe::job
