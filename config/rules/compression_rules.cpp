// Rules of the `compression_training` section: reads the groups of modules, whose names a configuration chooses freely,
// from the given keys, and checks the values of each group.
#include <fmt/format.h>

#include <algorithm>

#include "config/keys/values.hpp"
#include "config/rules/resolve.hpp"

namespace troupe::config {
namespace {

constexpr std::string_view root = "compression_training.";

class compression_checks : key_reports {
 public:
  compression_checks(const settings& given, job_config& config, reporter& report, purpose why)
      : key_reports(given, report), config_(config), out_(config.compression), why_(why) {}

  void all() {
    weights();
    activations();
    layers();
  }

 private:
  [[nodiscard]] std::string where(const std::string& key) const {
    const place at = given_.where(key);
    return at.source < report_.sources.size() ? fmt::format("{}:{}", report_.sources[at.source].name, at.line) : "";
  }

  /// Returns the names of the groups of a technique, as in the file.
  [[nodiscard]] std::vector<std::string> groups_of(const std::string& technique) const {
    const std::string before = std::string(root) + technique + ".different_groups.";
    constexpr std::string_view params = ".params";
    std::vector<std::string> out;
    for (const auto& [path, at] : given_.sections)
      if (path.starts_with(before) && !path.ends_with(params)) out.push_back(path);
    return out;
  }
  void fill(module_group& into, const std::string& section) const {
    into.name = section.substr(section.rfind('.') + 1);
    into.where = where(section);
    into.modules = {"*"};
    const setting* s = given_.value_of(section + ".modules");
    if (s == nullptr || s->value == nullptr) return;
    into.modules.clear();
    if (s->value->is_scalar()) into.modules.push_back(s->value->text);
    for (const node_ptr& item : s->value->items) into.modules.push_back(item->text);
  }

  void layers() {
    auto& r = out_.layers;
    if (!r.enabled) return;
    const std::string key = std::string(root) + "layer_reduction.";
    r.where = where(key + "enabled");
    r.layers_where = where(key + "teacher_layer");
    r.prefix_where = where(key + "module_name_prefix");
    r.others_where = where(key + "other_module_name");
    const auto needed = [&](const char* name, bool given) {
      if (!given) error(key + name, "wanted a value: layer_reduction needs it");
    };
    needed("module_name_prefix", !r.module_name_prefix.empty());
    needed("teacher_layer", !r.teacher_layer.empty());
    if (!r.teacher_layer.empty() && r.keep_number_layer > 0 && r.teacher_layer.size() != r.keep_number_layer)
      error(key + "teacher_layer", fmt::format("wanted one for each of the {} layers of keep_number_layer, got {}",
                                               r.keep_number_layer, r.teacher_layer.size()));
    if (why_ == purpose::job && config_.model.teacher.empty())
      error("model.teacher", "wanted the model that layer_reduction takes layers from, got nothing");
  }

  void activations() {
    auto& a = out_.activations;
    const std::string name = "activation_quantization", shared = std::string(root) + name + ".shared_parameters.";
    if (!a.enabled) return;
    a.where = where(shared + "enabled");
    for (const std::string& group : groups_of(name)) {
      activation_group g;
      fill(g, group);
      const std::string bits = group + ".params.bits";
      if (given_.value_of(bits) == nullptr) continue;  // deepspeed_rules.cpp reports the missing key
      g.bits = static_cast<uint32_t>(given_.number_of(bits));
      if (g.bits != 4 && g.bits != 8) error(bits, fmt::format("wanted 4 or 8, got {}", g.bits));
      a.groups.push_back(std::move(g));
    }
  }

  void weights() {
    auto& w = out_.weights;
    const std::string section = std::string(root) + "weight_quantization", shared = section + ".shared_parameters.";
    if (!w.enabled) return;
    w.where = where(shared + "enabled");
    constexpr std::string_view mixes = "fp16_mixed_quantize.enabled";
    if (w.in_forward && w.mixed)
      error(shared + std::string(mixes),
            "wanted false with quantize_weight_in_forward, which uses target_bits from the beginning, got true");
    const bool around_zero = w.type == grid_type::symmetric;
    for (const std::string& group : groups_of("weight_quantization")) {
      weight_group g;
      fill(g, group);
      const std::string bits = group + ".params.target_bits";
      if (given_.value_of(bits) == nullptr) continue;  // deepspeed_rules.cpp reports the missing key
      g.target_bits = static_cast<uint32_t>(given_.number_of(bits));
      if (g.target_bits < 3 && !around_zero)
        error(bits, fmt::format("wanted at least 3 with quantization_type asymmetric, got {}", g.target_bits));
      if (g.target_bits < 3 && w.stochastic)
        error(bits, fmt::format("wanted at least 3 with rounding stochastic, got {}", g.target_bits));
      const std::string start = group + ".params.start_bits";
      g.start_bits = g.target_bits;
      if (given_.value_of(start) != nullptr) g.start_bits = static_cast<uint32_t>(given_.number_of(start));
      if (g.start_bits < g.target_bits)
        error(start, fmt::format("wanted at least the {} target_bits, got {}", g.target_bits, given_.text_of(start)));
      const std::string period = group + ".params.quantization_period";
      if (given_.value_of(period) != nullptr) g.period = static_cast<uint64_t>(given_.number_of(period));
      if (!w.in_forward && !given_.was_refused(period)) slow_bits(g, group + ".params.");
      w.groups.push_back(std::move(g));
    }
  }

  /// Warns about a group that still has more bits than `target_bits` after the last step. The first bit is removed in
  /// step `period`, counted from schedule_offset on, and each further bit after twice as many steps, at most one in a
  /// step.
  void slow_bits(const weight_group& g, const std::string& params) {
    const uint64_t offset = out_.weights.schedule_offset, steps = config_.steps;
    if (steps == 0 || offset > steps) return;  // idle_rules.cpp warns about a technique that never begins
    constexpr uint64_t most = UINT64_MAX / 2;
    uint64_t last = 0, period = g.period;
    for (uint32_t bits = g.start_bits; bits > g.target_bits; --bits) {
      last = std::max(period, last + 1);
      period = std::min(period, most) * 2;
    }
    if (last <= steps - offset + 1) return;
    const bool is_given = given_.value_of(params + "quantization_period") != nullptr;
    const std::string key = params + (is_given ? "quantization_period" : "start_bits");
    report_.warn(given_.where(key), key,
                 fmt::format("the {} target_bits are not reached: the last bit is removed {} updates after the {} of "
                             "schedule_offset, and the run has {} steps",
                             g.target_bits, last - 1, offset, steps));
  }

  job_config& config_;
  compression_section& out_;
  purpose why_;
};

// Refuses a `distillation` section in which the weights of all loss terms are 0.
void distillation_rules(const settings& given, job_config& config, reporter& report) {
  auto& d = config.distillation;
  if (!d.enabled) return;
  const place at = given.where("distillation.enabled");
  if (at.source < report.sources.size()) d.where = fmt::format("{}:{}", report.sources[at.source].name, at.line);
  if (d.layer_wise && (d.hidden_states > 0 || d.attention > 0))
    report.error(given.where("distillation.layer_wise.enabled"), "distillation.layer_wise.enabled",
                 "cannot be combined with terms.hidden_states or terms.attention, which compare whole models; set it "
                 "to false or "
                 "their weights to 0");
  if (!d.layer_wise && d.cross_entropy == 0 && d.logits == 0 && d.hidden_states == 0 && d.attention == 0)
    report.error(given.where("distillation.terms.logits.weight"), "distillation.terms.logits.weight",
                 "wanted a term with a weight above 0, got none");
  const auto& layers = config.compression.layers;
  if (d.hidden_states > 0 && layers.enabled && !layers.teacher_layer.empty() && layers.teacher_layer.front() == 0)
    report.error(given.where("distillation.terms.hidden_states"), "distillation.terms.hidden_states",
                 "wanted 0, because teacher_layer begins with 0: the embedding is compared with the layer before it, "
                 "which does not exist; set it to 0 or change teacher_layer");
  if (config.model.teacher.empty() && !layers.enabled)
    report.error(at, "model.teacher", "wanted the model that distillation learns from, got nothing");
}

}  // namespace

void compression_rules(const settings& given, job_config& config, reporter& report, purpose why) {
  compression_checks(given, config, report, why).all();
  distillation_rules(given, config, report);
}

}  // namespace troupe::config
