// Rules of the `compile` section: derives one schedule of passes from the section's two forms, checks the names of
// DeepSpeed's passes, and derives where the data is stored that passes move to the host.
#include <fmt/format.h>

#include <algorithm>

#include "config/rules/resolve.hpp"
#include "config/sections/unit_passes.hpp"

namespace troupe::config {
namespace {

class compile_checks : key_rules {
 public:
  compile_checks(const settings& given, job_config& config, reporter& report, origins& derived)
      : key_rules(given, config, report, derived), c_(config.compile) {}

  void all() {
    if (!c_.enabled) return;
    offload();
    deepspeed_names();
    schedule();
  }

 private:
  /// Derives the settings of `zero_optimization.offload_*` and of activation offloading from the offload keys of
  /// `compile`.
  void offload() {
    auto& z = config_.zero_optimization;
    if (c_.offload_activation) {
      if (config_.activation_checkpointing.selective)
        return error("activation_checkpointing.selective",
                     "wanted false with compile.offload_activation, for which units have to be recomputed, got true");
      if (config_.offload_activations == offload_device::none) {
        config_.offload_activations = offload_device::cpu;
        derived_.emplace("cluster.offload_activations", "derived");
      }
      config_.activation_checkpointing.enabled = true;
      derived_.emplace("activation_checkpointing.enabled", "derived");
    }
    if (c_.offload_opt_states && z.offload_optimizer.device == offload_device::none) {
      if (z.stage == 0) return error("compile.offload_opt_states", "requires ZeRO stage 1, 2 or 3, got stage 0");
      z.offload_optimizer.device = offload_device::cpu;
      derived_.emplace("zero_optimization.offload_optimizer.device", "derived");
    }
    if (c_.offload_parameters && z.offload_param.device == offload_device::none) {
      if (z.stage != 3)
        return error("compile.offload_parameters", fmt::format("requires ZeRO stage 3, got stage {}", z.stage));
      z.offload_param.device = offload_device::cpu;
      derived_.emplace("zero_optimization.offload_param.device", "derived");
    }
  }

  void deepspeed_names() {
    const uint32_t stage = config_.zero_optimization.stage;
    const auto& p = config_.parallel;
    const auto wanted = [&](std::string_view name) -> std::string {
      if (name == "z1" && stage != 1 && stage != 2)
        return fmt::format("ZeRO stage 1 or 2 with z1, got stage {}", stage);
      if (name == "z3" && stage != 3) return fmt::format("ZeRO stage 3 with z3, got stage {}", stage);
      if (name == "autosp" && p.sequence == 1) return "parallel.sequence above 1 with autosp, got 1";
      if (name == "autotp" && p.tensor == 1) return "parallel.tensor above 1 with autotp, got 1";
      return {};
    };
    for (const std::string& name : c_.passes)
      if (const std::string what = wanted(name); !what.empty()) error("compile.passes", "wanted " + what);
  }

  void schedule() {
    constexpr std::string_view key = "compile.schedule";
    if (given_.was_refused(key)) return;
    c_.where = where(c_.passes_given ? "compile.passes" : "compile.deepcompile");
    if (!c_.schedule.empty() && c_.passes_given)
      return error("compile.passes", "cannot be combined with compile.schedule: remove one of the two");
    for (size_t k = 0; k < c_.schedule.size(); ++k) {
      const std::string item = fmt::format("{}[{}]", key, k);
      c_.schedule[k].where = where(item);
      if (k > 0 && c_.schedule[k].step <= c_.schedule[k - 1].step)
        error(item + ".step", fmt::format("wanted a later step than the previous entry's, {}, got {}",
                                          c_.schedule[k - 1].step, c_.schedule[k].step));
    }
    units_and_states_stay();
  }

  /// Checks that passes over a host's units, and passes that choose where states are stored, are in every entry of the
  /// schedule from the first step on: a run fixes its units and the places of its states when it opens.
  void units_and_states_stay() {
    const auto has = [](const compile_entry& e, const std::string& name) {
      return std::ranges::find(e.passes, name) != e.passes.end();
    };
    for (const compile_entry& x : c_.schedule)
      for (const std::string& name : x.passes)
        if ((changes_units(name) || places_states(name)) &&
            (c_.schedule.front().step > 0 ||
             !std::ranges::all_of(c_.schedule, [&](const compile_entry& e) { return has(e, name); })))
          return error("compile.schedule",
                       fmt::format("wanted {} in every entry, from step 0 on, or in none, because {} between steps; "
                                   "got it in some entries",
                                   name, changes_units(name) ? "units cannot change" : "states cannot move"));
  }

  [[nodiscard]] std::string where(const std::string& key) const {
    const place at = given_.where(key);
    return fmt::format("{}:{}: {}", report_.sources.at(at.source).name, at.line, key);
  }

  compile_section& c_;
};

}  // namespace

void compile_rules(const settings& given, job_config& config, reporter& report, origins& derived) {
  compile_checks(given, config, report, derived).all();
}

}  // namespace troupe::config
