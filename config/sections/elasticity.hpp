// Global batches that can be cut for many data degrees: `elasticity`, by the rules 0.1 and 0.2 of DeepSpeed, which had
// it until 0.19.6. Owns the section and the rules, which are pure; what a file may say beside it is
// elasticity_rules.cpp's, which degree a job takes after a loss job/feasible_degree.hpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace troupe::config {

/// Limits of what the rules try: the batch, and sizes of micro-batches.
inline constexpr uint64_t elastic_batch_max = 1'000'000'000;
inline constexpr size_t elastic_sizes_max = 64;

struct elasticity_section {  ///< `elasticity`
  bool enabled = false;
  uint64_t max_train_batch_size = 2000;
  std::vector<uint64_t> micro_batch_sizes = {2, 4, 6};
  uint64_t min_gpus = 1, max_gpus = 10000;
  double version = 0.2;
  bool prefer_larger_batch = true;
  bool ignore_non_elastic_batch_info = false;
  uint64_t model_parallel_size = 1, num_gpus_per_node = 1;  ///< of version 0.2
};

struct elastic_batch {            ///< what the rules give
  uint64_t train = 0;             ///< samples of a step; 0: a micro-batch for each rank is more than the largest batch
  std::vector<uint64_t> degrees;  ///< data degrees that it can be cut for, ascending
  uint64_t micro = 0;             ///< samples of a micro-batch at the degree that was asked for
};

struct elastic_problem {  ///< why they give nothing
  std::string key, text;  ///< the key that is wrong, and what was wanted and got
};

/// What is wrong with the section, whatever the ranks are.
std::optional<elastic_problem> elastic_problem_of(const elasticity_section& section);

/// The batch for a job of `ranks` ranks, `data` of which train on different samples. Equal to DeepSpeed's
/// compute_elastic_config, whose world_size stands for both. Version 0.1 has one batch for all degrees; 0.2 counts in
/// nodes, and for ranks that fill no allowed number of them it has a batch of their own. Errors: those of
/// elastic_problem_of, and a degree that the batch cannot be cut for, at `parallel.data`.
tl::expected<elastic_batch, elastic_problem> elastic_batch_for(const elasticity_section& section, uint64_t ranks,
                                                               uint64_t data);

/// The same for a data degree of a job: the ranks are model_parallel_size times as many. Error too: a batch of 0.
tl::expected<elastic_batch, elastic_problem> elastic_batch_at(const elasticity_section& section, uint64_t data);

}  // namespace troupe::config
