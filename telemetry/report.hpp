// The page at the end of a run: one HTML file that needs nothing else. Owns what stands where; curves and lanes are
// drawn by chart.hpp, colours lie in report_style.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telemetry/communication_log.hpp"
#include "telemetry/memory_table.hpp"
#include "telemetry/stage_figures.hpp"
#include "telemetry/thinned_series.hpp"
#include "telemetry/unit_profile.hpp"

namespace troupe::telemetry {

/// Facts of a run that are known before it begins.
struct run_facts {
  std::string name;       ///< of the job
  std::string loss_unit;  ///< nats/byte, nats/token
  std::string parameter_dtype;
  uint32_t zero_stage = 0, ranks = 1;
  uint32_t pipeline = 1;             ///< parts of the model, each on ranks of its own
  std::string mesh;                  ///< axes and degrees, for people
  uint64_t parameters = 0;           ///< numel, shared ones once
  uint64_t parameters_per_rank = 0;  ///< that lie on a rank between steps, at most
  uint64_t steps = 0;                ///< wanted
  uint64_t micro_batch = 1, accumulation = 1, sequence = 0;
  std::string host_layers;  ///< a line for each layer of a host's modules: how it is cut, and why; empty: left out
};

enum class verdict : uint8_t { done, stopped, failed };  ///< how the run ended

/// Facts that are known when it ends.
struct run_end {
  telemetry::verdict verdict = telemetry::verdict::done;
  std::string failure;  ///< the error, where it failed
  double seconds = 0;
  std::optional<double> validation_loss;  ///< over the whole validation part
  std::vector<memory_row> memory;
  uint64_t process_peak_bytes = 0;
  std::string configuration;          ///< effective YAML; empty: the section is left out
  std::string sample;                 ///< text that the model wrote; empty: left out
  std::vector<std::string> left_out;  ///< samples that the run left out, a line for each decision
};

/// The records of a run that has ended.
struct run_records {
  std::string communication_table;  ///< empty where comms_logger is off
  std::string communication_json;
  bool curves_complete = true;  ///< every value is in its file
  bool report_written = false;  ///< set by whoever writes the page
  pipeline_figures pipeline;
  std::string profile;  ///< text of a profile; empty where none was wanted, or too few steps were recorded
};

/// A step whose update was left out.
struct skipped_step {
  uint64_t step = 0;
  double loss_scale = 1;
};
/// Skipped steps that a report lists; all are counted.
inline constexpr size_t listed_skips_limit = 50;

/// Curves over steps.
struct run_curves {
  thinned_series loss, validation, lr, grad_norm, tokens_per_s;
};

/// Everything a page shows.
struct report_data {
  run_facts facts;
  run_end end;
  const run_curves* curves = nullptr;
  uint64_t steps_done = 0, tokens = 0, num_skipped = 0, num_not_recorded = 0;
  double step_seconds = 0;                                               ///< of all steps together
  double step_s = 0, compute_s = 0, communication_s = 0, exposed_s = 0;  ///< means of a step
  double control_idle_s = 0;                                             ///< as in step_values
  std::vector<skipped_step> skipped;
  uint64_t drawn_step = 0;  ///< from 1
  std::span<const rank_spans> lanes;
  pipeline_figures pipeline;
  std::vector<unit_profile> units;
  std::vector<communication_row> communication;
  std::vector<std::string> files;  ///< names beside the page
};

/// The whole page. Whatever stands in names, errors, samples and configurations is text in it, never markup.
std::string report_page(const report_data& d);

}  // namespace troupe::telemetry
