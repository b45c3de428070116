// Applies the rules between keys: derives values from other values, and refuses combinations. Contains DeepSpeed's
// rules for its own keys and Troupe's additional rules.
#pragma once

#include "config/rules/settings.hpp"

namespace troupe::config {

/// Keys whose values were filled in, and the origin of each value: `derived`, `default of muon`.
using origins = std::map<std::string, std::string, std::less<>>;

/// Derives values that follow from other keys, and reports every conflict between keys.
void resolve(const settings& given, job_config& config, reporter& report, origins& derived, purpose why);

/// Derives and checks the settings of optimizer, learning rate, parameter groups and texts.
void training_rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why);

/// Applies the rules of degrees and pipelines; runs before all other rules, which need the degrees.
void parallel_rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why);

/// Derives and checks the settings of processes, for jobs whose degrees are known.
void cluster_rules(const settings& given, job_config& config, reporter& report, origins& derived);

/// Derives the batch sizes of a job with elasticity; without known degrees only checks the section.
void elasticity_rules(const settings& given, job_config& config, reporter& report, origins& derived,
                      bool knows_degrees);

/// Applies the rules of passes over the plan, and of data that these move to the host.
void compile_rules(const settings& given, job_config& config, reporter& report, origins& derived);
void compression_rules(const settings& given, job_config& config, reporter& report, purpose why);
void pruning_rules(const settings& given, job_config& config, reporter& report);

/// Applies the rules of norms and kept activations that are split over tensor ranks; runs when recomputation is
/// decided.
void norm_rules(const settings& given, job_config& config, reporter& report, origins& derived);

/// Warns about given keys of a run's own sections that other keys leave without effect.
void idle_rules(const settings& given, const job_config& config, reporter& report);

/// Applies the rules of samples that are left out, and of the reaction to a spike of the loss.
void skip_rules(const settings& given, job_config& config, reporter& report, purpose why);

/// Refuses settings that a device other than the CPU does not support.
void device_rules(const settings& given, const job_config& config, reporter& report, purpose why);

/// Applies DeepSpeed's rules between keys that set no field of job_config.
void deepspeed_rules(const settings& given, reporter& report);

/// Applies the rules of where states and activations are stored, and how swap files are read.
void offload_rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why);

/// The three batch sizes; 0: not given.
struct batch_sizes {
  uint64_t train = 0, micro = 0, accumulation = 0;
};
/// Completes the triangle train = micro x accumulation x `data_ranks` from the given sizes, or returns one sentence
/// with the reason why that is impossible.
tl::expected<batch_sizes, std::string> complete(batch_sizes given, uint64_t data_ranks);

}  // namespace troupe::config
