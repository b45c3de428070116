// Rules of the `lora` section: what it requires, and what cannot be combined with adapters yet. Leaves the names of
// layers, which depend on the model, to job/model/adapters.hpp.
#include <fmt/format.h>

#include "config/rules/resolve.hpp"

namespace troupe::config {

void lora_rules(const settings& given, job_config& config, reporter& report, purpose why) {
  lora_section& lora = config.lora;
  lora.given |= lora.r_given || lora.alpha_given || lora.rslora_given || given.mappings.contains("lora");
  if (!lora.given) return;
  const auto error = [&](std::string_view key, std::string text) {
    report.error(given.where(key), std::string(key), std::move(text));
  };
  if (why == purpose::host_job)
    return error("lora", "cannot be combined with a host program's own modules yet; remove the section");
  for (const char* key : {"lora.targets", "lora.modules_to_save"})
    for (const std::string& name : std::string_view(key) == "lora.targets" ? lora.targets : lora.modules_to_save)
      if (name.empty()) error(key, "wanted names of layers, got an empty text");
  if (lora.targets.empty() && lora.from.empty() && !given.was_refused("lora.targets") &&
      !given.was_refused("lora.from"))
    error("lora.targets", "wanted names of linear layers, such as q_proj, or all-linear, or lora.from, got nothing");
  if (config.parallel.tensor > 1 && lora.dropout > 0)
    error("lora.dropout", fmt::format("wanted 0 with parallel.tensor {}, whose ranks hold parts of what adapters read, "
                                      "got {}",
                                      config.parallel.tensor, lora.dropout));
  if (config.compression.any() || config.compression.layers.enabled)
    error("compression_training", "cannot be combined with the section lora yet; remove one of the two");
  if (config.distillation.enabled)
    error("distillation.enabled", "cannot be combined with the section lora yet; set it to false");
  if (config.zero_optimization.zenflow.enabled)
    error("zero_optimization.zenflow", "cannot be combined with the section lora yet; remove one of the two");
}

}  // namespace troupe::config
