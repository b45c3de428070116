#include "plan/choose/profile.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/cells.hpp"
#include "core/math.hpp"
#include "core/text.hpp"

namespace troupe::plan {
namespace {

constexpr std::string_view first_line = "troupe profile,1";
constexpr std::string_view unit_line =
    "elements,forward_flops,activation_bytes,forward_s,backward_input_s,backward_weight_s,recompute_s,unit";

using core::read_amount;
using core::read_number;
using core::take_cell;

class reader {
 public:
  reader(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  core::result<model_profile> run() {
    model_profile out;
    if (next() != first_line) return refuse("'" + std::string(first_line) + "'");
    if (!field("dtype", [&](std::string_view v) { return !(out.dtype = v).empty(); })) return refuse("'dtype,NAME'");
    if (!field("steps", [&](std::string_view v) { return read_number(v, out.steps); })) return refuse("'steps,N'");
    if (!field("update_s_per_element", [&](std::string_view v) { return read_amount(v, out.update_s_per_element); }))
      return refuse("'update_s_per_element,SECONDS'");
    if (!field("transfer_s_per_byte", [&](std::string_view v) { return read_amount(v, out.transfer_s_per_byte); }))
      return refuse("'transfer_s_per_byte,SECONDS'");
    if (next() != unit_line) return refuse("'" + std::string(unit_line) + "'");
    while (!rest_.empty())
      if (!read_unit(next(), out.units.emplace_back())) return refuse("seven numbers and a name in quotes");
    return out;
  }

 private:
  std::string_view next() {
    ++line_;
    return take_cell(rest_, '\n');
  }
  bool field(std::string_view name, auto value) {
    auto line = next();
    return take_cell(line, ',') == name && value(line);
  }
  static bool read_unit(std::string_view line, profiled_unit& u) {
    if (!read_number(take_cell(line, ','), u.elements) || !read_amount(take_cell(line, ','), u.forward_flops) ||
        !read_number(take_cell(line, ','), u.activation_bytes))
      return false;
    for (double* s : {&u.forward_s, &u.backward_input_s, &u.backward_weight_s, &u.recompute_s})
      if (!read_amount(take_cell(line, ','), *s)) return false;
    u.name = line;  // name of the unit as the file has it, in quotes
    return line.size() >= 2 && line.front() == '"' && line.back() == '"';
  }
  [[nodiscard]] tl::unexpected<core::error> refuse(const std::string& wanted) const {
    return core::fail(core::error_kind::bad_input, fmt::format("{}:{}: wanted {} of a profile", path_, line_, wanted));
  }

  std::string_view rest_;
  const std::string& path_;
  size_t line_ = 0;
};

}  // namespace

std::vector<profiled_unit> units_to_profile(const core::model_table& table) {
  std::vector<profiled_unit> out;
  for (const auto& unit : table.units) {
    profiled_unit& u = out.emplace_back();
    u.name = core::json_string(unit.name);
    for (const uint32_t q : unit.parameters) u.elements += table.parameters[q].numel();
    for (const auto& s : unit.segments) {
      u.forward_flops += s.forward_flops;
      u.activation_bytes += s.saved_bytes;
    }
  }
  return out;
}

std::string write_profile(const model_profile& p) {
  using core::number_text;
  std::string out(first_line);
  out += fmt::format("\ndtype,{}\nsteps,{}", p.dtype, p.steps);
  out += "\nupdate_s_per_element," + number_text(p.update_s_per_element);
  out += "\ntransfer_s_per_byte," + number_text(p.transfer_s_per_byte) + "\n";
  out.append(unit_line) += '\n';
  for (const auto& u : p.units) {
    out += fmt::format("{},{},{}", u.elements, number_text(u.forward_flops), u.activation_bytes);
    for (const double s : {u.forward_s, u.backward_input_s, u.backward_weight_s, u.recompute_s})
      out += "," + number_text(s);
    out += "," + u.name + "\n";
  }
  return out;
}

core::result<model_profile> read_profile(std::string_view text, const std::string& path) {
  return reader(text, path).run();
}

bool is_of(const model_profile& profile, const core::model_table& table, core::dtype parameter) {
  return profile.dtype == core::name_of(parameter) &&
         std::ranges::equal(profile.units, units_to_profile(table), [](const auto& a, const auto& b) {
           return a.name == b.name && a.elements == b.elements && a.forward_flops == b.forward_flops &&
                  a.activation_bytes == b.activation_bytes;
         });
}

void take_times(const model_profile& profile, const core::model_table& table, const plan_options& o,
                std::vector<modelled_unit>& units) {
  for (size_t k = 0; k < units.size(); ++k) {
    const profiled_unit& from = profile.units[k];
    stage_cost& to = units[k].micro;
    to.forward_s = from.forward_s;
    const bool goes_back = k >= table.first_trained_unit();
    to.backward_input_s = goes_back ? from.backward_input_s : 0;
    to.backward_weight_s = goes_back ? from.backward_weight_s : 0;
    if (goes_back && o.recomputes(static_cast<uint32_t>(k)) && k != table.teacher_units)
      to.backward_input_s += from.recompute_s > 0 ? from.recompute_s : from.forward_s;
    double updated = 0;
    for (const uint32_t q : table.units[k].parameters)
      if (const auto& p = table.parameters[q]; p.trainable)
        updated += static_cast<double>(o.updates_all() ? p.numel() : core::div_up(p.numel(), o.shards()));
    units[k].update_s = updated * profile.update_s_per_element;
  }
}

}  // namespace troupe::plan
