// Rules between the keys that decide where states are stored: further keys that a device requires, the optimizers and
// ZeRO stages that support it, and DeepSpeed's older spellings. In a plain DeepSpeed file, a feature that only Troupe
// lacks is a warning.
#include <fmt/format.h>

#include "config/keys/key_rows.hpp"
#include "config/keys/values.hpp"
#include "config/rules/resolve.hpp"

namespace troupe::config {
namespace {

constexpr std::string_view param = "zero_optimization.offload_param", optimizer = "zero_optimization.offload_optimizer",
                           zenflow_name = "zero_optimization.zenflow", activations = "cluster.offload_activations";
constexpr std::string_view cpu_checkpointing = "activation_checkpointing.cpu_checkpointing";

std::string in(std::string_view section, std::string_view name) { return fmt::format("{}.{}", section, name); }

class placement : key_rules {
 public:
  placement(const settings& given, job_config& config, reporter& report, origins& derived, purpose why)
      : key_rules(given, config, report, derived), zero_(config.zero_optimization), job_(why != purpose::deepspeed) {}

  void all() {
    if (given_.was_refused("zero_optimization.stage")) return;
    parameters();
    states();
    swapped();
    super_offload();
    updates_ahead();
    zenflow();
    stored_activations();
    files();
  }

 private:
  /// Reports a feature that DeepSpeed has and Troupe lacks: an error for a job that is to run here, else a warning.
  void unable(std::string_view key, std::string text) {
    job_ ? error(key, std::move(text)) : warn(key, std::move(text));
  }
  /// True if a key comes from a plain or imported DeepSpeed file, which DeepSpeed would accept.
  [[nodiscard]] bool is_lenient(std::string_view key) const {
    return !job_ || report_.sources.at(given_.where(key).source).kind == source::imported;
  }
  [[nodiscard]] std::string given_text(std::string_view key) const { return given_.text_of(key); }
  void needs_stage_3(const std::string& key) {
    if (zero_.stage != 3) error(key, fmt::format("wanted stage 3, got stage {}", zero_.stage));
  }

  void parameters() {
    auto& part = zero_.offload_param;
    if (part.device == offload_device::none || zero_.stage == 3) return;
    const std::string key = in(param, "device");
    if (!is_lenient(key)) return needs_stage_3(key);
    warn(key, "no effect: only stage 3 has parameters to offload");
    part.device = offload_device::none;
    derived_[key] = "derived";
  }

  void states() {
    if (zero_.stage == 0 && zero_.offload_optimizer.device != offload_device::none)
      error(in(optimizer, "device"), "wanted stage 1, 2 or 3, got stage 0");
    if (zero_.offload_optimizer.ratio < 1) needs_stage_3(in(optimizer, "ratio"));
  }

  /// Checks the keys that are required in the sections offload_param and offload_optimizer with device: nvme.
  void swapped() {
    const offload_section* parts[] = {&zero_.offload_param, &zero_.offload_optimizer};
    for (const offload_section* part : parts) {
      if (part->device != offload_device::nvme) continue;
      const std::string_view section = part == parts[0] ? param : optimizer;
      if (part->nvme_path.empty() && !given_.was_refused(in(section, "nvme_path")))
        error(in(section, "nvme_path"), "wanted a path, got nothing: device nvme needs it");
      if (part->buffer_count_given && part->buffer_count == 0)
        error(in(section, "buffer_count"), "wanted an integer of at least 1 with device nvme, got 0");
      if (needs_whole_parameters())
        unable(in(section, "device"),
               fmt::format("nvme: wanted an optimizer that updates element by element, got {}, which needs whole "
                           "parameters",
                           core::name_of(config_.optimizer.type)));
    }
    const offload_optimizer_section& first = zero_.offload_optimizer;
    const offload_param_section& second = zero_.offload_param;
    if (second.device != offload_device::nvme) return;
    if (first.device == offload_device::nvme && !first.nvme_path.empty() && !second.nvme_path.empty() &&
        first.nvme_path != second.nvme_path)
      unable(in(param, "nvme_path"), fmt::format("wanted the nvme_path of offload_optimizer, {}, since a run has one "
                                                 "folder of swap files, got {}",
                                                 first.nvme_path.string(), second.nvme_path.string()));
  }

  [[nodiscard]] bool needs_whole_parameters() const {
    return config_.optimizer.type == core::optimizer_type::lamb || config_.optimizer.type == core::optimizer_type::muon;
  }

  void super_offload() {
    auto& part = zero_.offload_optimizer;
    const std::string key = in(optimizer, "super_offload");
    if (!part.super_offload) return;
    needs_stage_3(key);
    if (part.device != offload_device::cpu)
      error(key, fmt::format("requires offload_optimizer.device: cpu, got {}", given_text(in(optimizer, "device"))));
    if (needs_whole_parameters())
      unable(key,
             fmt::format("wanted an optimizer that updates element by element, got {}, which needs whole parameters",
                         core::name_of(config_.optimizer.type)));
    if (config_.early_updates == early_choice::never) return;
    if (config_.gradient_clipping != 0 && config_.early_updates == early_choice::automatic)
      warn(key, fmt::format("updates wait for the gradient norm, because gradient_clipping is {}; set it to 0, or set "
                            "cluster.early_updates: true, to let them begin during backward",
                            config_.gradient_clipping));
    else if (zero_.offload_param.device == offload_device::nvme && config_.skips_overflow())
      warn(key,
           "updates wait for the gradient norm, because offload_param.device is nvme and steps may be skipped; set "
           "cluster.early_updates: true to let them begin during backward, which makes the swap files twice as long");
  }

  // Decides whether updates run before the vote, the collective that decides whether a step is clipped or skipped. By
  // default a job with swap files updates early if it never skips or clips a step: early updates then need no more
  // memory and hide the disk's time, but a job that may undo an update needs twice the space on disk. By default a job
  // with super_offload and without swap files updates early if it does not clip; there an overflow does not matter,
  // because it is rare, but a clipped step pays for an undo and a second update, and many runs clip most steps. A job
  // on a GPU updates early only if the file requests it.
  void updates_ahead() {
    auto& part = zero_.offload_optimizer;
    if (config_.early_updates == early_choice::always) must_update_ahead();
    const bool may = zero_.swaps() ? !config_.skips_overflow() : part.super_offload;
    const bool chosen = may && config_.gradient_clipping == 0 && config_.device == core::device_kind::cpu;
    part.speculates =
        config_.early_updates == early_choice::automatic ? chosen : config_.early_updates == early_choice::always;
  }
  void must_update_ahead() {
    constexpr std::string_view key = "cluster.early_updates";
    if (needs_whole_parameters())
      error(key, fmt::format("true: wanted an optimizer that updates element by element, got {}, which needs whole "
                             "parameters",
                             core::name_of(config_.optimizer.type)));
    if (given_.mappings.contains(zenflow_name)) error(key, "wanted auto or false with zenflow, got true");
  }

  void zenflow() {
    auto& z = zero_.zenflow;
    z.enabled = given_.mappings.contains(zenflow_name);
    const auto refused = given_.refused.lower_bound(in(zenflow_name, ""));
    if (!z.enabled || (refused != given_.refused.end() && refused->starts_with(zenflow_name))) return;
    if (z.select == select_strategy::epoch)
      unable(in(zenflow_name, "select_strategy"),
             "wanted step or auto, got epoch, which this version does not support");
    if (zero_.offload_param.device == offload_device::nvme)
      unable(zenflow_name, "requires parameters in memory, got offload_param.device: nvme");
    if (zero_.offload_optimizer.device != offload_device::cpu)
      error(zenflow_name,
            fmt::format("requires offload_optimizer.device: cpu, got {}", given_text(in(optimizer, "device"))));
    if (zero_.offload_optimizer.super_offload)
      error(in(optimizer, "super_offload"), "wanted false with zenflow, got true");
    if (config_.optimizer.type == core::optimizer_type::lamb)
      warn(zenflow_name, "no effect: updates of lamb need whole parameters and are never split");
    const std::string interval = in(zenflow_name, "select_interval");
    const bool automatic = z.select == select_strategy::automatic;
    if (automatic && z.select_interval)
      error(interval, fmt::format("wanted auto, as select_strategy is auto, got {}", *z.select_interval));
    if (!automatic && !z.select_interval)
      error(interval, fmt::format("wanted an integer of at least 1 with select_strategy {}, got auto",
                                  given_text(in(zenflow_name, "select_strategy"))));
    if (z.select == select_strategy::step && z.select_interval.value_or(UINT64_MAX) < z.update_interval.value_or(0))
      error(interval, fmt::format("wanted at least update_interval, which is {}, got {}", *z.update_interval,
                                  *z.select_interval));
  }

  void stored_activations() {
    auto& device = config_.offload_activations;
    std::string_view key = activations;
    if (config_.activation_checkpointing.cpu_checkpointing && device == offload_device::none) {
      if (given_.value_of(activations) != nullptr)
        return error(activations, "wanted cpu or nvme with activation_checkpointing.cpu_checkpointing, got none");
      key = cpu_checkpointing;
      device = offload_device::cpu;
      derived_[std::string(activations)] = "derived";
    }
    if (device == offload_device::none) return;
    if (!config_.activation_checkpointing.enabled) {
      if (key == cpu_checkpointing && is_lenient(key)) {
        warn(key, "no effect: activation_checkpointing.enabled is false");
        device = offload_device::none;
        return;
      }
      error(key, fmt::format("{}: requires activation_checkpointing.enabled: true, got false", given_text(key)));
    }
    const offload_optimizer_section& first = zero_.offload_optimizer;
    const offload_param_section& second = zero_.offload_param;
    if (device == offload_device::nvme && first.nvme_path.empty() && second.nvme_path.empty())
      error(activations, "nvme: wanted nvme_path in offload_optimizer or offload_param, got neither");
  }

  void files() {
    if (config_.swap_gradients == swap_choice::always && !zero_.swaps())
      error("cluster.swap_gradients", "true: wanted device nvme in offload_optimizer or offload_param, got neither");
    if (const uint64_t bytes = config_.aio.block_size; bytes % aio_block_alignment != 0)
      unable("aio.block_size", fmt::format("wanted a multiple of {}, got {}", aio_block_alignment, bytes));
  }

  zero_section& zero_;
  bool job_;
};

}  // namespace

void offload_rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why) {
  placement(given, config, report, derived, why).all();
}

}  // namespace troupe::config
