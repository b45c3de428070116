#include "apps/simulate/calibrate_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "apps/base/common_options.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/simulate/calibrate_report.hpp"
#include "core/text.hpp"
#include "hardware/calibration.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {

calibrate_command::calibrate_command(CLI::App& app)
    : program_command(app, "calibrate",
                      "measures this machine in 10 s, for the predictions of plan and simulate; or fits the constants "
                      "of a stack to a table of measurements") {
  command_->add_option(
      "--fit", arguments_.table,
      "a CSV file of measurements, as troupe simulate --table reads it; rows of other cards are left out");
  command_
      ->add_option("--hardware", hardware_,
                   "the stack whose constants with an expectation are fitted, or a card with one stack for such tables")
      ->type_name(hardware_choices());
  command_->add_option("--out", arguments_.out, "write the fitted stack to this file, NAME.yaml, for --hardware");
  command_->add_option("--disk", disk_folder_,
                       "measure this machine with the disk of this folder, where states are swapped to");
  add_json(*command_, form_);
}

core::result<void> calibrate_command::check_options() const {
  if (measures()) return refuse_idle(given_in(*command_), {{false, "a fit, --fit TABLE.csv", {"--hardware", "--out"}}});
  TROUPE_TRY(refuse_idle(given_in(*command_), {{false, "a measurement of this machine, without --fit", {"--disk"}}}));
  if (hardware_.empty())
    return core::refused(fmt::format("--hardware: wanted the stack to fit, one of {}", hardware_choices()));
  return {};
}

int calibrate_command::run() {
  if (!arguments_.out.empty() && !arguments_.out.ends_with(".yaml"))
    return failed({core::error_kind::bad_input,
                   fmt::format("--out: wanted a name that ends in .yaml, as --hardware reads it, got {}",
                               core::shown(arguments_.out))});
  arguments_.hardware = {hardware_};
  const auto table = open_table(arguments_, hardware::other_cards::left_out);
  if (!table) return failed(table.error());
  const auto& by = table->stacks.front();
  const auto all = hardware::calibrate(by, table->read.samples);
  if (!all) return failed(all.error());
  if (!arguments_.out.empty()) {
    const auto source = fmt::format("fitted to {} rows of {}", table->read.rows,
                                    core::printable_line(std::filesystem::path(table->file).filename().string()));
    auto own = hardware::calibrated(by, *all, source);
    if (auto ranges = hardware::fitted_ranges_of(table->read.samples); !ranges.empty())
      own.fitted_from = std::move(ranges);
    if (const auto ok = storage::write_file_atomically(arguments_.out, hardware::stack_text(own)); !ok)
      return failed(ok.error());
  }
  const auto text = form_ == output_form::json ? calibrated_json(*table, *all) : calibrated_text(*table, *all);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace troupe::apps
