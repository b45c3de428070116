// Owns the layout of the page at the end of a run: one HTML file without dependencies. Leaves curves and lanes to
// chart.hpp, colours to report_style.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telemetry/curves/tracked_run.hpp"
#include "telemetry/figures/communication_log.hpp"
#include "telemetry/figures/memory_table.hpp"
#include "telemetry/figures/stage_figures.hpp"
#include "telemetry/figures/unit_profile.hpp"
#include "telemetry/report/thinned_series.hpp"

namespace troupe::telemetry {

/// Facts of a run that are known before it begins.
struct run_facts {
  std::string name;       ///< name of the job
  std::string loss_unit;  ///< unit of the loss: nats/byte or nats/token
  std::string parameter_dtype;
  uint32_t zero_stage = 0, ranks = 1;
  uint32_t pipeline = 1;             ///< pipeline degree: number of parts of the model, each on its own ranks
  std::string mesh;                  ///< axes and degrees as text for display
  uint64_t parameters = 0;           ///< number of elements of the model; a shared parameter counts once
  uint64_t parameters_per_rank = 0;  ///< largest number of elements that a rank stores between steps
  uint64_t steps = 0;                ///< number of steps that the job requests
  uint64_t micro_batch = 1, accumulation = 1, sequence = 0;
  /// If the host program provided its own modules: one line per layer, how Troupe split it over tensor ranks, and
  /// why. Empty: not shown.
  std::string host_layers;
};

/// Facts of a run that are known when it ends.
struct run_end {
  telemetry::verdict verdict = telemetry::verdict::done;
  std::string failure;  ///< text of the error that ended a failed run; empty for any other run
  double seconds = 0;
  std::optional<double> validation_loss;  ///< loss over all data held out for validation, with the weights after the
                                          ///< last step; nullopt: not computed
  std::vector<memory_row> memory;
  uint64_t process_peak_bytes = 0;
  std::string configuration;          ///< effective YAML; empty: the section is omitted
  std::string sample;                 ///< text that the model generated; empty: not shown
  std::vector<std::string> left_out;  ///< texts that name samples left out after a spike of the loss, or by data.skip
};

/// The records of a run that has ended.
struct run_records {
  std::string communication_table;  ///< collectives by operation and size, as text; empty if comms_logger is off
  std::string communication_json;
  bool curves_complete = true;  ///< true if every value of the curves was written to its file
  bool report_written = false;  ///< true if the report page was written; set by the code that writes it
  pipeline_figures pipeline;
  std::string profile;  ///< text of the profile; empty if not requested, or if too few steps were recorded
};

/// A step whose update was skipped.
struct skipped_step {
  uint64_t step = 0;
  double loss_scale = 1;
};
/// Limit of the skipped steps that a report lists; the count includes all.
inline constexpr size_t listed_skips_limit = 50;

/// A curve with a name.
struct named_series {
  std::string name;
  thinned_series values;
};

/// Curves of a run over its steps.
struct run_curves {
  thinned_series loss, validation, lr, grad_norm, tokens_per_s;
  std::map<std::string, thinned_series> metrics{};  ///< the host program's own metrics, by name
  std::string validation_name{};  ///< name of the set of `validation`; empty: the held-out part of the data
  std::vector<named_series> validation_sets{};  ///< losses of further validation sets, in the order of their first one
};

/// All data that a report page shows.
struct report_data {
  run_facts facts;
  run_end end;
  const run_curves* curves = nullptr;
  uint64_t steps_done = 0, tokens = 0, num_skipped = 0, num_not_recorded = 0;
  double step_seconds = 0;  ///< seconds of all steps together
  /// Mean seconds per step: of the step, with compute busy, with a collective in progress, and with a collective in
  /// progress that no computation hides.
  double step_s = 0, compute_s = 0, communication_s = 0, exposed_s = 0;
  /// Mean seconds per step in which compute was idle although an instruction and a core were ready.
  double control_idle_s = 0;
  std::vector<skipped_step> skipped;
  uint64_t drawn_step = 0;  ///< number of the step whose lanes are drawn, counted from 1
  std::span<const rank_spans> lanes;
  pipeline_figures pipeline;
  std::vector<unit_profile> units;
  std::vector<communication_row> communication;
  std::vector<std::string> files;  ///< names of the files in the page's folder that the page lists
};

/// Returns the whole page. Names, errors, samples and configurations are escaped: they are text, never markup.
std::string report_page(const report_data& d);

}  // namespace troupe::telemetry
