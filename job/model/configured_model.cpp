#include "job/model/configured_model.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "job/model/adapters.hpp"
#include "job/model/folder_model.hpp"

namespace troupe::job {

std::optional<std::string> soft_cap_problem(const config::job_config& config, const models::model_spec& spec) {
  const std::string_view own = spec.family->keys.logit_soft_cap.name;
  if (config.loss.logit_soft_cap == 0 || own.empty()) return std::nullopt;
  return fmt::format("a {} model has {} in its config.json: set model.{}, or the key of the folder, and remove this "
                     "key",
                     spec.family->model_type, own, own);
}

std::string unstated_soft_cap(double cap) {
  return fmt::format("its run caps logits at {} ({}), which config.json cannot say: programs that read it compute "
                     "logits without the cap",
                     cap, soft_cap_key);
}

core::result<configured_model> read_model(const config::job_config& config) {
  const auto& m = config.model;
  TROUPE_ASSIGN(auto spec, m.path.empty() ? models::parse_model_spec(m.hugging_face_json)
                                          : read_folder_model(m.path, m.ignore_keys));
  const uint64_t sequence = config.data.sequence_length > 0 ? config.data.sequence_length : spec.longest();
  if (sequence > spec.longest())
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("data.sequence_length: wanted at most the model's {} positions, got {}", spec.longest(), sequence));
  if (const auto problem = soft_cap_problem(config, spec)) return core::refused(soft_cap_key + (": " + *problem));
  if (config.loss.logit_soft_cap > 0) spec.logits.soft_cap = config.loss.logit_soft_cap;
  auto adapters = choose_adapters(config.lora, spec);
  if (!adapters) {
    const auto& why = adapters.error();
    return core::fail(why.kind, fmt::format("{}: {}", why.key, why.text));
  }
  spec.adapters = std::move(*adapters);
  return configured_model{std::move(spec), sequence};
}

}  // namespace troupe::job
