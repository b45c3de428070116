// Global batches that can be divided at many data degrees: `elasticity`, by the rules 0.1 and 0.2 of DeepSpeed, which
// contained it until 0.19.6. Owns the section and the rules, which are pure; elasticity_rules.cpp refuses keys that
// cannot be combined with it, job/feasible_degree.hpp chooses the degree after a loss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace troupe::config {

/// Largest batch, and largest number of micro-batch sizes, that the elasticity rules accept.
inline constexpr uint64_t elastic_batch_max = 1'000'000'000;
inline constexpr size_t elastic_sizes_max = 64;

struct elasticity_section {  ///< configuration section `elasticity`
  bool enabled = false;
  uint64_t max_train_batch_size = 2000;
  std::vector<uint64_t> micro_batch_sizes = {2, 4, 6};
  uint64_t min_gpus = 1, max_gpus = 10000;
  double version = 0.2;
  bool prefer_larger_batch = true;
  bool ignore_non_elastic_batch_info = false;
  /// Number of ranks that together compute one copy of the model, and number of GPUs of a node; read by version 0.2
  /// only.
  uint64_t model_parallel_size = 1, num_gpus_per_node = 1;
};

struct elastic_batch {            ///< batch that the elasticity rules choose
  uint64_t train = 0;             ///< samples of a step; 0: a micro-batch for each rank exceeds the largest batch
  std::vector<uint64_t> degrees;  ///< data degrees at which the batch can be divided, ascending
  uint64_t micro = 0;             ///< number of samples of a micro-batch at the requested degree
};

struct elastic_problem {  ///< reason why the rules have no result
  std::string key, text;  ///< name of the wrong key, and a sentence with its expected and actual values
};

/// Returns the error of the section that holds for any number of ranks; nullopt if there is none.
std::optional<elastic_problem> elastic_problem_of(const elasticity_section& section);

/// Returns the batch for a job of `ranks` ranks, `data` of which train on different samples. Equal to DeepSpeed's
/// compute_elastic_config, whose world_size stands for both. Version 0.1 has one batch for all degrees; 0.2 counts in
/// nodes, and uses a separate batch for ranks that do not fill an allowed number of nodes. Errors: every error of
/// elastic_problem_of, and a degree at which the batch cannot be divided, at `parallel.data`.
tl::expected<elastic_batch, elastic_problem> elastic_batch_for(const elasticity_section& section, uint64_t ranks,
                                                               uint64_t data);

/// Returns the batch at a data degree of a job, with model_parallel_size times as many ranks. Errors: every error of
/// elastic_batch_for, and a batch of 0.
tl::expected<elastic_batch, elastic_problem> elastic_batch_at(const elasticity_section& section, uint64_t data);

}  // namespace troupe::config
