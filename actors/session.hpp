// The embedding API: a training run as a value. Build it from a configuration, step it, ask it, let it go.
// The command line uses nothing else. Not thread-safe: one caller at a time; `stop` may come from anywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/trace.hpp"
#include "config/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "plan/step_plan.hpp"

namespace troupe::actors {

/// What one optimizer step did.
struct step_report {
  uint64_t step = 0;  ///< from 1
  double loss = 0;    ///< mean over the global batch, nats per token
  double lr = 0;
  double grad_norm = 0;  ///< of the mean gradient, before clipping
  double loss_scale = 1;
  bool skipped = false;  ///< the gradient overflowed
  double seconds = 0;
  uint64_t tokens = 0;  ///< of the global batch
  step_summary lanes;
};

/// Bytes of one rank by owner: what is mapped, and what the model's arithmetic really took at its peak.
struct rank_memory_report {
  plan::memory_table resident;
  uint64_t activations_peak_bytes = 0;
};

struct session_hooks {
  std::function<void(const std::string&)> warn;  ///< one line each; may be empty
};

class session {
 public:
  /// Reads the data, writes and proves the plans, takes the memory, draws or loads the weights, starts the actors.
  /// Nothing runs yet. Errors: bad_input for what the configuration or files got wrong, limit, io.
  static core::result<std::unique_ptr<session>> open(std::shared_ptr<const config::job_config> config,
                                                     session_hooks hooks = {});
  /// Ends the actors and gives everything back, whatever state the run is in.
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// One optimizer step. After an error the session is over: every later call returns the same error.
  core::result<step_report> step();

  /// Mean loss over the validation part, in nats per token; at most `batches` global micro-batches (0: all whole ones).
  core::result<double> evaluate(uint64_t batches = 0);

  /// Continues `prompt` by `tokens` tokens, drawn at `temperature` (0: the likeliest) from the run's seed.
  core::result<std::vector<int64_t>> generate(std::vector<int64_t> prompt, uint64_t tokens, double temperature);

  /// Ends the run in hand as soon as the lanes notice. From any thread.
  void stop(const std::string& why);

  [[nodiscard]] uint64_t steps_done() const;
  [[nodiscard]] uint64_t validation_tokens() const;
  [[nodiscard]] uint64_t sequence() const;  ///< tokens of a sample
  [[nodiscard]] const core::model_table& table() const;
  [[nodiscard]] const plan::step_plan& training_plan(uint32_t rank) const;
  [[nodiscard]] std::vector<rank_memory_report> memory() const;

  /// Master weights of a parameter from element `first` on, as fp32 (rounded in reference mode). Between steps only.
  void read_parameter(uint32_t parameter, uint64_t first, std::span<float> out) const;
  /// First (0) or second (1) moment of a whole parameter, likewise.
  void read_moment(uint32_t parameter, int which, std::span<float> out) const;
  /// The reduced gradient of the last step, times the factor that makes it the mean over the global batch, in fp64.
  void read_gradient(uint32_t parameter, std::span<double> out) const;

  /// Writes config.json and model.safetensors (sharded beyond `max_shard_bytes`) for Hugging Face. Between steps only.
  core::result<void> export_hugging_face(const std::string& folder, uint64_t max_shard_bytes = uint64_t{5} << 30) const;

 private:
  struct parts;
  explicit session(std::unique_ptr<parts> p);
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::actors
