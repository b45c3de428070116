#include "apps/tune/tune_constants.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "apps/plan/plan_costs.hpp"
#include "apps/tune/child_process.hpp"
#include "core/clock.hpp"
#include "core/dtype.hpp"
#include "core/json_text.hpp"
#include "job/blueprint.hpp"
#include "plan/choose/machine_costs.hpp"

namespace troupe::apps {
namespace {

/// Milliseconds between two looks at whether a calibration has to stop.
constexpr int calibration_look_ms = 50;
/// Seconds that a calibration has to end by itself after it was asked to.
constexpr double calibration_grace_s = 2;

/// Returns a member of an object; null if there is none.
const nlohmann::json* member_of(const nlohmann::json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(std::string(name));
  return at == object.end() ? nullptr : &*at;
}

/// Sets one constant from its object in the output; false if it has no such number.
bool set_constant(const nlohmann::json& type, const plan::machine_constant& c, job::costs_of_type& out) {
  const auto* const constant = member_of(type, c.name);
  if (constant == nullptr) return false;
  for (const auto& [name, into] : {std::pair("value", &out.median), {"lower", &out.lower}, {"upper", &out.upper}}) {
    const auto* const number = member_of(*constant, name);
    if (number == nullptr || !number->is_number()) return false;
    const double value = number->get<double>();
    if (!std::isfinite(value) || value < 0 || (c.divides && value == 0)) return false;
    into->*c.field = value;
  }
  return true;
}

/// Runs `troupe calibrate --json` and returns what it printed.
core::result<std::string> calibrated_text(const std::filesystem::path& program, const std::function<bool()>& stops) {
  TROUPE_ASSIGN(const auto child, child_process::start({program.string(), "calibrate", "--json"}));
  std::string out;
  const auto add = [&](std::string_view line) { out.append(line).append("\n"); };
  while (!child->ended()) {
    child->listen(calibration_look_ms, add);
    if (!stops()) continue;
    child->end(calibration_grace_s);
    return core::fail(core::error_kind::stopped, "stopped while the machine was measured");
  }
  while (child->listen(0, add)) {
  }
  if (const int code = *child->ended(); code != 0)
    return core::fail(core::error_kind::io,
                      fmt::format("troupe calibrate ended with exit code {}: {}", code, child->last_error()));
  return out;
}

}  // namespace

job::model_of_kept tune_constants::model_for(const config::job_config& c) const {
  const auto usual = job::usual_costs(c);
  if (kept)
    if (auto by = job::model_by(*kept, c.parameter_dtype(), usual, c.swap_folder(), core::unix_seconds()))
      return std::move(*by);
  return {usual, false, "usual rates of a CPU"};
}

core::result<tune_constants> constants_of_machine(const std::filesystem::path& program,
                                                  const std::function<bool()>& stops) {
  tune_constants out;
  const auto machine = own_machine();
  TROUPE_ASSIGN(out.kept, job::open_kept_costs(job::kept_costs_file(machine), machine));
  if (out.kept) return out;
  TROUPE_ASSIGN(const auto text, calibrated_text(program, stops));
  TROUPE_ASSIGN(auto read, read_calibration(text, core::unix_seconds()));
  out.note =
      read.why_not_kept.empty()
          ? std::string("this machine was measured first, as troupe calibrate does")
          : "this machine was measured first, and the constants hold for this command alone: " + read.why_not_kept;
  out.kept = std::move(read.measured);
  return out;
}

core::result<calibration_output> read_calibration(std::string_view json, double now_s) {
  const auto other = [] {
    return core::fail(core::error_kind::mismatch, "troupe calibrate --json: its output is of another version");
  };
  const auto all = core::parse_json(json);
  if (!all) return other();
  calibration_output out;
  out.measured.measured_at_s = now_s;
  const auto *const cores = member_of(*all, "cores"), *const types = member_of(*all, "types");
  if (cores == nullptr || !cores->is_number_unsigned() || types == nullptr || !types->is_object()) return other();
  out.measured.machine.cores = cores->get<uint32_t>();
  for (const auto& [name, constants] : types->items()) {
    const auto type = core::float_dtype_from(name);
    if (!type) return other();
    job::costs_of_type of_type;
    of_type.type = *type;
    for (const auto& c : plan::machine_constants())
      if (!set_constant(constants, c, of_type)) return other();
    out.measured.types.push_back(of_type);
  }
  const auto* const why = member_of(*all, "why_not_kept");
  if (why != nullptr && why->is_string()) out.why_not_kept = why->get<std::string>();
  return out;
}

}  // namespace troupe::apps
