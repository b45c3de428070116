// Rules between keys: what follows from what, and what cannot stand together. zero.md's rules for DeepSpeed's keys,
// Troupe's own beside them.
#pragma once

#include "config/rules/settings.hpp"

namespace troupe::config {

/// Keys that were filled in, and where their values come from: `derived`, `default of muon`.
using origins = std::map<std::string, std::string, std::less<>>;

/// Fills in what follows from other keys and reports every conflict.
void resolve(const settings& given, job_config& config, reporter& report, origins& derived, purpose why);

/// The part of it that concerns optimizer, learning rate, parameter groups and texts.
void training_rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why);

/// The part of it that concerns degrees and pipelines; before all others, which need them.
void parallel_rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why);

/// The part of it that concerns processes, of jobs whose degrees are known.
void cluster_rules(const settings& given, job_config& config, reporter& report, origins& derived);

/// The batch sizes of a job with elasticity; without the degrees only what is wrong with the section.
void elasticity_rules(const settings& given, job_config& config, reporter& report, origins& derived,
                      bool knows_degrees);

/// The part of it that concerns passes over the plan, and what these move to the host.
void compile_rules(const settings& given, job_config& config, reporter& report, origins& derived);
void compression_rules(const settings& given, job_config& config, reporter& report, purpose why);
void pruning_rules(const settings& given, job_config& config, reporter& report);

/// The part of it that concerns norms and kept activations cut over tensor ranks, once it is said what is recomputed.
void norm_rules(const settings& given, job_config& config, reporter& report, origins& derived);

/// The part of it that concerns samples that are left out, and what follows a spike of the loss.
void skip_rules(const settings& given, job_config& config, reporter& report, purpose why);

/// The part of it that concerns what a device other than the CPU cannot do.
void device_rules(const settings& given, const job_config& config, reporter& report, purpose why);

/// The rules of DeepSpeed between keys that set no field of job_config.
void deepspeed_rules(const settings& given, reporter& report);

/// The part of it that concerns where states and activations live, and how swap files are read.
void offload_rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why);

/// The three batch sizes; 0: not given.
struct batch_sizes {
  uint64_t train = 0, micro = 0, accumulation = 0;
};
/// Completes the triangle train = micro x accumulation x `data_ranks` from what is given, or says in one sentence
/// why that cannot be.
tl::expected<batch_sizes, std::string> complete(batch_sizes given, uint64_t data_ranks);

}  // namespace troupe::config
