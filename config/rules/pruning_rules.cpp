// Rules of pruning: reads its groups from the given keys, and checks the values that each method allows. Leaves modules
// and widths to job/, which has the model.
#include <fmt/format.h>

#include "config/keys/values.hpp"
#include "config/rules/resolve.hpp"

namespace troupe::config {
namespace {

constexpr std::string_view root = "compression_training.";

class pruning_checks : key_reports {
 public:
  pruning_checks(const settings& given, uint64_t steps, reporter& report) : key_reports(given, report), steps_(steps) {}

  void all(compression_section& c) {
    if (section("sparse_pruning", c.sparse)) sparse(c.sparse);
    section("row_pruning", c.rows);
    if (section("head_pruning", c.heads)) heads(c.heads);
    section("channel_pruning", c.channels);
  }

 private:
  [[nodiscard]] std::string where(const std::string& key) const {
    const place at = given_.where(key);
    return at.source < report_.sources.size() ? fmt::format("{}:{}", report_.sources[at.source].name, at.line) : "";
  }
  [[nodiscard]] static std::string shared(const std::string& name) {
    return std::string(root) + name + ".shared_parameters.";
  }

  /// Adds the groups of a section; returns true if the section is on.
  bool section(const std::string& name, pruning_section& p) {
    if (!p.enabled) return false;
    p.where = where(shared(name) + "enabled");
    const std::string before = std::string(root) + name + ".different_groups.";
    for (const auto& [path, at] : given_.sections)
      if (path.starts_with(before) && !path.ends_with(".params")) add_group(path, p);
    return true;
  }

  void add_group(const std::string& section, pruning_section& p) {
    pruned_group g;
    g.name = section.substr(section.rfind('.') + 1);
    g.where = where(section);
    g.modules = {"*"};
    if (const setting* s = given_.value_of(section + ".modules"); s != nullptr && s->value != nullptr)
      g.modules = texts_in(*s->value);
    if (const setting* s = given_.value_of(section + ".related_modules"); s != nullptr && s->value != nullptr) {
      for (const node_ptr& item : s->value->items) g.related.push_back(texts_in(*item));
      if (!g.related.empty() && g.related.size() != g.modules.size())
        error(section + ".related_modules",
              fmt::format("wanted a list of patterns for each of the {} patterns of modules, got {}", g.modules.size(),
                          g.related.size()));
    }
    const std::string ratio = section + ".params.dense_ratio";
    if (given_.value_of(ratio) == nullptr) return;  // deepspeed_rules.cpp reports the missing ratio
    g.dense_ratio = given_.number_of(ratio);
    // A value that all groups share replaces a group's own, as in DeepSpeed.
    if (p.method == pruning_method::snip_momentum && p.dense_ratio) g.dense_ratio = *p.dense_ratio;
    p.groups.push_back(std::move(g));
  }
  [[nodiscard]] static std::vector<std::string> texts_in(const node& n) {
    std::vector<std::string> out;
    if (n.is_scalar()) out.push_back(n.text);
    for (const node_ptr& item : n.items) out.push_back(item->text);
    return out;
  }

  void sparse(const pruning_section& p) {
    if (p.method != pruning_method::snip_momentum) return;
    const std::string keys = shared("sparse_pruning");
    if (p.schedule_offset == 0)
      error(keys + "schedule_offset",
            "wanted at least 1 with snip_momentum, which scores weights by earlier updates, got 0");
    if (p.schedule_end && *p.schedule_end < p.schedule_offset)
      error(keys + "schedule_offset_end",
            fmt::format("wanted at least the {} of schedule_offset, got {}", p.schedule_offset, *p.schedule_end));
    const uint64_t end = p.schedule_end.value_or(p.schedule_offset);
    if (steps_ > 0 && p.schedule_offset <= steps_ && end > steps_)
      warn(keys + "schedule_offset_end",
           fmt::format("dense_ratio is not reached: the last blocks are removed after {} updates, and the run has {} "
                       "steps",
                       end, steps_));
  }
  void heads(const pruning_section& p) {
    if (p.method == pruning_method::l1)
      error(shared("head_pruning") + "method", "wanted topk, as heads have no weights of their own, got l1");
  }

  uint64_t steps_;  ///< steps of the run; 0: unknown
};

}  // namespace

void pruning_rules(const settings& given, job_config& config, reporter& report) {
  pruning_checks(given, config.steps, report).all(config.compression);
}

}  // namespace troupe::config
