// Applies the rules between keys: derives values from other values, and refuses combinations. Contains DeepSpeed's
// rules for its own keys and Troupe's additional rules.
#pragma once

#include "config/rules/settings.hpp"

namespace troupe::config {

/// [key]: origin of a value that a rule has derived, such as `derived` or `default of muon`.
using origins = std::map<std::string, std::string, std::less<>>;

/// Base class of classes that apply rules: has the given keys, and reports errors and warnings about them.
class key_reports {
 protected:
  key_reports(const settings& given, reporter& report) : given_(given), report_(report) {}
  [[nodiscard]] const setting* value_of(std::string_view key) const { return given_.value_of(key); }
  void error(std::string_view key, std::string text) const {
    report_.error(given_.where(key), std::string(key), std::move(text));
  }
  void warn(std::string_view key, std::string text) const {
    report_.warn(given_.where(key), std::string(key), std::move(text));
  }

  const settings& given_;
  reporter& report_;
};
/// Base class of rules that change values of a job and record where the new values come from.
class key_rules : protected key_reports {
 protected:
  key_rules(const settings& given, job_config& config, reporter& report, origins& derived)
      : key_reports(given, report), config_(config), derived_(derived) {}

  job_config& config_;
  origins& derived_;
};

/// Derives values that follow from other keys, and reports every conflict between keys.
void resolve(const settings& given, job_config& config, reporter& report, origins& derived, purpose why);

/// Derives and checks the settings of optimizer, learning rate, parameter groups, data and evaluation.
void training_rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why);

/// Applies the rules of degrees and pipelines; runs before all other rules, which need the degrees.
void parallel_rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why);

/// Derives and checks the settings of the section `cluster` (processes and hosts), for jobs whose parallel degrees are
/// known.
void cluster_rules(const settings& given, job_config& config, reporter& report, origins& derived);

/// Derives the batch sizes of a job with `elasticity`; if the degrees are not known, only checks that section.
void elasticity_rules(const settings& given, job_config& config, reporter& report, origins& derived,
                      bool knows_degrees);

/// Applies the rules of the section `compile`: its passes over the plan, and where the states that passes offload are
/// stored.
void compile_rules(const settings& given, job_config& config, reporter& report, origins& derived);
void compression_rules(const settings& given, job_config& config, reporter& report, purpose why);
void pruning_rules(const settings& given, job_config& config, reporter& report);

/// Applies the rules of adapters, and determines if the job has any.
void lora_rules(const settings& given, job_config& config, reporter& report, purpose why);

/// Applies the rules of names by which other programs know the run.
void monitor_rules(const settings& given, const job_config& config, reporter& report);

/// Applies the rules of norms and stored activations that are split over tensor ranks. Must run after the rules that
/// decide about recomputation.
void norm_rules(const settings& given, job_config& config, reporter& report, origins& derived);

/// Warns about given keys that have no effect because of other keys.
void idle_rules(const settings& given, const job_config& config, reporter& report);

/// Refuses steps with different numbers of micro-batches where they cannot be combined with other keys.
void count_rules(const settings& given, const job_config& config, reporter& report, purpose why);

/// Applies the rules of samples that are left out, and of the reaction to a spike of the loss.
void skip_rules(const settings& given, job_config& config, reporter& report, purpose why);

/// Refuses settings that a device other than the CPU does not support.
void device_rules(const settings& given, const job_config& config, reporter& report, purpose why);

/// Applies DeepSpeed's rules between several keys, for keys that set no field of job_config.
void deepspeed_rules(const settings& given, reporter& report);

/// Applies the rules of where states and activations are stored, and how swap files are read.
void offload_rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why);

/// The three batch sizes of a step: samples of all ranks, samples of a micro-batch on a rank, micro-batches; 0: not
/// given.
struct batch_sizes {
  uint64_t train = 0, micro = 0, accumulation = 0;
};
/// Derives the missing batch sizes by train = micro x accumulation x `data_ranks` from the given ones, or returns one
/// sentence with the reason why that is impossible.
tl::expected<batch_sizes, std::string> complete(batch_sizes given, uint64_t data_ranks);

}  // namespace troupe::config
