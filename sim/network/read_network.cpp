#include "sim/network/read_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "config/document/document.hpp"
#include "config/document/files.hpp"
#include "config/document/scalars.hpp"
#include "config/keys/key_table.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "sim/network/end_pattern.hpp"

namespace troupe::sim {
namespace {

using config::node_kind;

/// Largest oversubscription and largest cost of a link: beyond them a file has a misprint.
constexpr double most_oversubscription = 1000;
constexpr uint64_t most_cost = 1000;
constexpr size_t most_name_bytes = 60;
/// The count of nodes of which there are as many as the ranks of a job need.
constexpr std::string_view as_needed = "as_needed";

std::string nearest_of(std::string_view wanted, const std::vector<std::string>& names) {
  const auto near = std::ranges::min_element(
      names, {}, [&](const std::string& name) { return config::edits(wanted.substr(0, most_name_bytes), name); });
  return near == names.end() ? std::string() : *near;
}

/// Things that one entry of the file names: one, or `count` numbered ones.
struct family {
  std::string name;
  uint64_t count = 1;
  bool is_counted = false;
  bool is_as_needed = false;
  uint64_t first = 0;           ///< vertex of the first thing; of a family of nodes: number of the first node
  double oversubscription = 0;  ///< 0: none
  config::place at;

  [[nodiscard]] std::string name_of(uint64_t i) const { return is_counted ? fmt::format("{}{}", name, i) : name; }
};

struct node_family : family {
  family device;
  std::vector<family> switches;  ///< those of each node
};

/// A named end of links: the family, or the families of node and part, with the indices within them.
struct end_place {
  const family* outer = nullptr;
  const family* inner = nullptr;  ///< null if the end is a switch outside of nodes
  index_expression outer_index, inner_index;
};

/// Where a number is: the mapping that has it, the name of the mapping, and the key.
struct number_place {
  const config::node* of = nullptr;
  std::string where;
  std::string_view name;
};

class network_reader {
 public:
  network_reader(std::string file, uint32_t ranks) : file_(std::move(file)), ranks_(ranks) {}

  core::result<network> read(const config::node& root) {
    TROUPE_TRY(only(root, "", {"kind", "nodes", "switches", "links"}));
    TROUPE_ASSIGN(const auto kind, text(root, "", "kind"));
    if (kind != "network")
      return wrong(root.find("kind")->at, fmt::format("kind: wanted network, got {}", core::shown(kind)));
    TROUPE_TRY(read_nodes(root));
    TROUPE_TRY(make_nodes_as_needed());
    TROUPE_TRY(read_switches(root));
    TROUPE_TRY(number_vertices());
    TROUPE_TRY(read_links(root));
    TROUPE_TRY(check_switches());
    TROUPE_TRY(limit_uplinks());
    index_links();
    TROUPE_TRY(check_connected());
    return std::move(out_);
  }

 private:
  [[nodiscard]] tl::unexpected<core::error> wrong(config::place at, const std::string& what) const {
    return core::refused(fmt::format("{}:{}: {}", file_, at.line, what));
  }
  static std::string full(const std::string& where, std::string_view name) {
    return where.empty() ? std::string(name) : fmt::format("{}.{}", where, name);
  }

  /// Refuses a value that is no mapping, and an entry that is none of `names`.
  [[nodiscard]] core::result<void> only(const config::node& of, const std::string& where,
                                        const std::vector<std::string>& names) const {
    if (of.kind != node_kind::mapping)
      return wrong(of.at,
                   fmt::format("{}: wanted a mapping, got {}", where.empty() ? "the file" : where, config::shown(of)));
    for (const auto& e : of.entries)
      if (std::ranges::find(names, e.name) == names.end())
        return wrong(e.at, fmt::format("{}: unknown key, the nearest is {}", core::shown(full(where, e.name)),
                                       nearest_of(e.name, names)));
    return {};
  }
  [[nodiscard]] core::result<const config::node*> needed(const config::node& of, const std::string& where,
                                                         std::string_view name) const {
    const config::node* const value = of.find(name);
    if (value == nullptr) return wrong(of.at, fmt::format("{} is missing", full(where, name)));
    return value;
  }
  [[nodiscard]] core::result<std::string> text(const config::node& of, const std::string& where,
                                               std::string_view name) const {
    TROUPE_ASSIGN(const auto* value, needed(of, where, name));
    if (!value->is_scalar() || value->text.empty())
      return wrong(value->at, fmt::format("{}: wanted a text, got {}", full(where, name), config::shown(*value)));
    return value->text;
  }
  [[nodiscard]] core::result<double> number(const config::node& of, const std::string& where, std::string_view name,
                                            double least, double most, bool is_above) const {
    TROUPE_ASSIGN(const auto* value, needed(of, where, name));
    const double x = config::number_in(*value).value_or(std::nan(""));
    if (std::isfinite(x) && x >= least && x <= most && !(is_above && x == least)) return x;
    return wrong(value->at, fmt::format("{}: wanted a finite number {} {:g}{}, got {}", full(where, name),
                                        is_above ? "above" : "of at least", least,
                                        most < 1e300 ? fmt::format(" and at most {:g}", most) : std::string(),
                                        config::shown(*value)));
  }
  [[nodiscard]] core::result<uint64_t> whole(const config::node& of, const std::string& where, std::string_view name,
                                             uint64_t most) const {
    TROUPE_ASSIGN(const auto* value, needed(of, where, name));
    const auto x = config::integer_in(*value);
    if (x && !x->negative && x->magnitude >= 1 && x->magnitude <= most) return x->magnitude;
    return wrong(value->at, fmt::format("{}: wanted an integer from 1 to {}, got {}", full(where, name), most,
                                        config::shown(*value)));
  }
  /// Returns where the number of a constant is: it may be given alone, or as a mapping of value, unit, meaning and
  /// source. Refuses another unit, and a mapping without meaning and source.
  [[nodiscard]] core::result<number_place> constant(const config::node& of, const std::string& where,
                                                    std::string_view name, std::string_view unit) const {
    TROUPE_ASSIGN(const auto* value, needed(of, where, name));
    if (value->kind != node_kind::mapping) return number_place{&of, where, name};
    const std::string here = full(where, name);
    TROUPE_TRY(only(*value, here, {"value", "unit", "meaning", "source"}));
    TROUPE_ASSIGN(const auto given, text(*value, here, "unit"));
    if (given != unit)
      return wrong(value->find("unit")->at,
                   fmt::format("{}: wanted {}, got {}", full(here, "unit"), unit, core::shown(given)));
    TROUPE_TRY(text(*value, here, "meaning"));
    TROUPE_TRY(text(*value, here, "source"));
    return number_place{value, here, "value"};
  }
  /// Returns the items of a list, which has at least one; none if the list may be missing and is.
  [[nodiscard]] core::result<std::vector<config::node_ptr>> list(const config::node& of, const std::string& where,
                                                                 std::string_view name, bool may_be_missing) const {
    if (may_be_missing && of.find(name) == nullptr) return std::vector<config::node_ptr>{};
    TROUPE_ASSIGN(const auto* value, needed(of, where, name));
    if (value->kind != node_kind::sequence || value->items.empty())
      return wrong(value->at, fmt::format("{}: wanted a list of at least one item, got {}", full(where, name),
                                          config::shown(*value)));
    return value->items;
  }

  /// Reads `name` and `count` of an entry into `out`.
  core::result<void> read_family(const config::node& of, const std::string& where, family& out,
                                 bool may_be_as_needed = false) const {
    out.at = of.at;
    TROUPE_ASSIGN(out.name, text(of, where, "name"));
    const auto is_of_name = [](char c) { return core::is_ascii_word(c) || c == '_' || c == '-'; };
    if (!std::ranges::all_of(out.name, is_of_name) || out.name.size() > most_name_bytes)
      return wrong(of.find("name")->at, fmt::format("{}: wanted at most {} letters, digits, '_' and '-', got {}",
                                                    full(where, "name"), most_name_bytes, core::shown(out.name)));
    const config::node* const count = of.find("count");
    out.is_counted = count != nullptr;
    if (!out.is_counted) return {};
    out.is_as_needed = may_be_as_needed && count->is_scalar() && count->text == as_needed;
    if (!out.is_as_needed) {
      TROUPE_ASSIGN(out.count, whole(of, where, "count", most_vertices));
    }
    if (out.name.back() >= '0' && out.name.back() <= '9')
      return wrong(of.find("name")->at,
                   fmt::format("{}: {} has a count, so its name cannot end in a digit", full(where, "name"), out.name));
    return {};
  }
  core::result<family> read_switch(const config::node& of, const std::string& where) const {
    TROUPE_TRY(only(of, where, {"name", "count", "oversubscription"}));
    family out;
    TROUPE_TRY(read_family(of, where, out));
    if (of.find("oversubscription") != nullptr) {
      TROUPE_ASSIGN(const auto at, constant(of, where, "oversubscription", "ratio"));
      TROUPE_ASSIGN(out.oversubscription, number(*at.of, at.where, at.name, 1, most_oversubscription, false));
    }
    return out;
  }

  core::result<void> read_nodes(const config::node& root) {
    TROUPE_ASSIGN(const auto items, list(root, "", "nodes", false));
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string where = fmt::format("nodes[{}]", i);
      TROUPE_TRY(only(*items[i], where, {"name", "count", "devices", "switches"}));
      node_family one;
      TROUPE_TRY(read_family(*items[i], where, one, true));
      one.device.name = "device";
      one.device.is_counted = true;
      one.device.at = one.at;
      TROUPE_ASSIGN(const auto devices, constant(*items[i], where, "devices", "devices"));
      TROUPE_ASSIGN(one.device.count, whole(*devices.of, devices.where, devices.name, most_vertices));
      TROUPE_ASSIGN(const auto switches, list(*items[i], where, "switches", true));
      for (size_t k = 0; k < switches.size(); ++k) {
        TROUPE_ASSIGN(auto inner, read_switch(*switches[k], fmt::format("{}.switches[{}]", where, k)));
        one.switches.push_back(std::move(inner));
      }
      nodes_.push_back(std::move(one));
    }
    return {};
  }
  /// Gives the entry of nodes whose count is as_needed, if there is one, as many nodes as the ranks need, at least one.
  core::result<void> make_nodes_as_needed() {
    node_family* open = nullptr;
    uint64_t others = 0;  // devices of all other nodes
    for (auto& n : nodes_) {
      if (!n.is_as_needed) {
        others += n.count * n.device.count;
        continue;
      }
      if (open != nullptr)
        return wrong(n.at, fmt::format("{}: only one entry of nodes can have count: {}, and {} has it", n.name,
                                       as_needed, open->name));
      open = &n;
    }
    if (open == nullptr || others >= ranks_) return {};
    open->count = (ranks_ - others + open->device.count - 1) / open->device.count;
    return {};
  }
  core::result<void> read_switches(const config::node& root) {
    TROUPE_ASSIGN(const auto items, list(root, "", "switches", true));
    for (size_t i = 0; i < items.size(); ++i) {
      TROUPE_ASSIGN(auto one, read_switch(*items[i], fmt::format("switches[{}]", i)));
      switches_.push_back(std::move(one));
    }
    return {};
  }

  /// Numbers and names all vertices; refuses too many of them, and a name that two things have.
  core::result<void> number_vertices() {
    uint64_t devices = 0, vertices = 0, nodes = 0;
    for (auto& n : nodes_) {
      n.first = nodes;
      n.device.first = devices;
      nodes += n.count;
      devices += n.count * n.device.count;
      if (devices > most_vertices) return too_many(n.at);
    }
    vertices = devices;
    const auto number = [&](family& f, uint64_t copies) -> core::result<void> {
      f.first = vertices;
      vertices += copies * f.count;
      if (vertices > most_vertices) return too_many(f.at);
      return {};
    };
    for (auto& n : nodes_)
      for (auto& f : n.switches) TROUPE_TRY(number(f, n.count));
    for (auto& f : switches_) TROUPE_TRY(number(f, 1));

    out_.vertex_names.resize(vertices);
    std::unordered_map<std::string, int> line_of;
    const auto put = [&](const std::string& name, config::place at) -> core::result<void> {
      const auto [before, is_new] = line_of.emplace(name, at.line);
      if (is_new) return {};
      return wrong(at, fmt::format("{} is given twice, first at line {}", name, before->second));
    };
    for (const auto& n : nodes_)
      for (uint64_t i = 0; i < n.count; ++i) {
        const std::string node = n.name_of(i);
        TROUPE_TRY(put(node, n.at));
        out_.node_names.push_back(node);
        for (uint64_t d = 0; d < n.device.count; ++d) {
          out_.node_of_device.push_back(static_cast<uint32_t>(n.first + i));
          std::string name = node + "." + n.device.name_of(d);
          TROUPE_TRY(put(name, n.at));
          out_.vertex_names[n.device.first + i * n.device.count + d] = std::move(name);
        }
        for (const auto& f : n.switches)
          for (uint64_t k = 0; k < f.count; ++k) {
            std::string name = node + "." + f.name_of(k);
            TROUPE_TRY(put(name, f.at));
            out_.vertex_names[f.first + i * f.count + k] = std::move(name);
          }
      }
    for (const auto& f : switches_)
      for (uint64_t k = 0; k < f.count; ++k) {
        TROUPE_TRY(put(f.name_of(k), f.at));
        out_.vertex_names[f.first + k] = f.name_of(k);
      }
    return {};
  }
  [[nodiscard]] tl::unexpected<core::error> too_many(config::place at) const {
    return wrong(at, fmt::format("wanted at most {} devices and switches in all, got more", most_vertices));
  }

  /// Returns the family of `families` that a part of a pattern names, with its index; null if there is none.
  static const family* find_family(const auto& families, const pattern_part& part, index_expression& index) {
    for (const family& f : families) {
      if (part.index) {
        if (f.is_counted && f.name == part.word) {
          index = *part.index;
          return &f;
        }
        continue;
      }
      index.terms.assign(1, {});
      if (!f.is_counted && f.name == part.word) return &f;
      if (!f.is_counted || !part.word.starts_with(f.name)) continue;
      const auto number = core::number_of<uint64_t>(std::string_view(part.word).substr(f.name.size()));
      if (!number || *number >= f.count || f.name_of(*number) != part.word) continue;
      index.terms.front().number = *number;
      return &f;
    }
    return nullptr;
  }
  static void append_names(std::vector<std::string>& out, const auto& families) {
    for (const family& f : families) out.push_back(f.is_counted ? f.name + "0" : f.name);
  }

  /// Returns the end that a text names; refuses a link to nowhere.
  [[nodiscard]] core::result<end_place> read_end(const config::node& of, const std::string& where,
                                                 const char* key) const {
    TROUPE_ASSIGN(const auto value, text(of, where, key));
    const config::place at = of.find(key)->at;
    auto pattern = parse_end(value);
    if (!pattern) return wrong(at, fmt::format("{}: {}", full(where, key), pattern.error().text));
    const auto nowhere = [&](const pattern_part& part, const std::vector<std::string>& names) {
      return wrong(at, fmt::format("{}: a link to nowhere, {}: there is no {}{}, the nearest is {}", full(where, key),
                                   value, part.word, part.index ? " with a count" : "", nearest_of(part.word, names)));
    };
    end_place out;
    const auto& parts = pattern->parts;
    out.outer = find_family(switches_, parts[0], out.outer_index);
    if (out.outer != nullptr) {
      if (parts.size() == 1) return out;
      return wrong(at,
                   fmt::format("{}: {} is a switch and has no parts, got {}", full(where, key), parts[0].word, value));
    }
    out.outer = find_family(nodes_, parts[0], out.outer_index);
    if (out.outer == nullptr) {
      std::vector<std::string> names;
      append_names(names, nodes_);
      append_names(names, switches_);
      return nowhere(parts[0], names);
    }
    const auto& node = static_cast<const node_family&>(*out.outer);
    if (parts.size() == 1)
      return wrong(at, fmt::format("{}: {} is a node; wanted a device or a switch in it, such as {}.device0",
                                   full(where, key), value, value));
    std::vector<family> devices{node.device};
    if (find_family(devices, parts[1], out.inner_index) != nullptr) {
      out.inner = &node.device;
      return out;
    }
    out.inner = find_family(node.switches, parts[1], out.inner_index);
    if (out.inner != nullptr) return out;
    std::vector<std::string> names;
    append_names(names, devices);
    append_names(names, node.switches);
    return nowhere(parts[1], names);
  }

  struct link_entry {
    end_place from, to;
    double bytes_per_s = 0, latency_s = 0;
    uint32_t cost = 1;
    bool is_forward = true, is_backward = true;
    bool is_pattern = false;
    std::string where;
    config::place at;
  };

  core::result<void> read_links(const config::node& root) {
    const bool is_single = out_.vertices() == 1;  // a device alone needs no links
    TROUPE_ASSIGN(const auto items, list(root, "", "links", is_single));
    for (size_t i = 0; i < items.size(); ++i) {
      const config::node& of = *items[i];
      link_entry e;
      e.where = fmt::format("links[{}]", i);
      e.at = of.at;
      TROUPE_TRY(only(of, e.where, {"from", "to", "bandwidth_bytes_per_s", "latency_s", "direction", "cost"}));
      TROUPE_ASSIGN(e.from, read_end(of, e.where, "from"));
      TROUPE_ASSIGN(e.to, read_end(of, e.where, "to"));
      TROUPE_ASSIGN(const auto rate, constant(of, e.where, "bandwidth_bytes_per_s", "B/s"));
      TROUPE_ASSIGN(e.bytes_per_s, number(*rate.of, rate.where, rate.name, 0, 1e300, true));
      TROUPE_ASSIGN(const auto latency, constant(of, e.where, "latency_s", "s"));
      TROUPE_ASSIGN(e.latency_s, number(*latency.of, latency.where, latency.name, 0, 1e300, false));
      TROUPE_ASSIGN(const auto direction, text(of, e.where, "direction"));
      if (direction != "both" && direction != "forward" && direction != "backward")
        return wrong(of.find("direction")->at, fmt::format("{}: wanted both, forward or backward, got {}",
                                                           full(e.where, "direction"), core::shown(direction)));
      e.is_forward = direction != "backward";
      e.is_backward = direction != "forward";
      if (of.find("cost") != nullptr) {
        TROUPE_ASSIGN(const auto cost, whole(of, e.where, "cost", most_cost));
        e.cost = static_cast<uint32_t>(cost);
      }
      TROUPE_TRY(expand(e));
    }
    return {};
  }

  /// Adds the links of an entry: one for each combination of its variables' values.
  core::result<void> expand(link_entry& e) {
    std::vector<std::pair<std::string, uint64_t>> ranges;  // variables and their numbers of values
    const auto bind = [&](const index_expression& x, const family* f) -> core::result<void> {
      if (f == nullptr) return {};
      for (const auto& t : x.terms) {
        const auto is_it = [&](const auto& range) { return range.first == t.variable; };
        if (t.variable.empty() || std::ranges::any_of(ranges, is_it)) continue;
        if (!x.is_bare())
          return wrong(e.at, fmt::format("{}: {} has no range: write ({}) alone before it is calculated with", e.where,
                                         t.variable, t.variable));
        ranges.emplace_back(t.variable, f->count);
      }
      return {};
    };
    for (const end_place* end : {&e.from, &e.to}) {
      TROUPE_TRY(bind(end->outer_index, end->outer));
      TROUPE_TRY(bind(end->inner_index, end->inner));
    }
    e.is_pattern = !ranges.empty();
    std::vector<uint64_t> values(ranges.size(), 0);
    const auto value_of = [&](const std::string& variable) {
      for (size_t i = 0; i < ranges.size(); ++i)
        if (ranges[i].first == variable) return values[i];
      return uint64_t{0};
    };
    const auto outside = [&](const family& f, std::optional<uint64_t> got) {
      std::string of;
      for (size_t i = 0; i < ranges.size(); ++i)
        of += fmt::format("{} {} = {}", i == 0 ? " for" : ",", ranges[i].first, values[i]);
      return wrong(e.at, fmt::format("{}: a link to nowhere: wanted {} 0 to {}, got {}{}", e.where, f.name, f.count - 1,
                                     got ? fmt::format("{}", *got) : "no such number", of));
    };
    for (;;) {
      uint64_t vertex[2] = {};
      for (const end_place* end : {&e.from, &e.to}) {
        uint64_t number = 0, first = 0;
        for (const auto& [f, x] :
             {std::pair(end->outer, &end->outer_index), std::pair(end->inner, &end->inner_index)}) {
          if (f == nullptr) continue;
          const auto value = x->value(value_of);
          if (!value || *value >= f->count) return outside(*f, value);
          number = number * f->count + *value;
          first = f->first;
        }
        vertex[end == &e.to ? 1 : 0] = first + number;
      }
      TROUPE_TRY(add_link(e, static_cast<uint32_t>(vertex[0]), static_cast<uint32_t>(vertex[1])));
      size_t i = ranges.size();
      while (i > 0 && ++values[i - 1] == ranges[i - 1].second) values[--i] = 0;
      if (i == 0) return {};
    }
  }

  core::result<void> add_link(const link_entry& e, uint32_t from, uint32_t to) {
    const auto name = [&](uint32_t v) { return out_.vertex_names[v]; };
    if (from == to) {
      if (e.is_pattern) return {};
      return wrong(e.at, fmt::format("{}: wanted a link between two things, got {} twice", e.where, name(from)));
    }
    const auto add = [&](uint32_t a, uint32_t b, bool is_up) -> core::result<void> {
      const uint64_t key = uint64_t{a} << 32 | b;
      const auto [before, is_new] = line_of_link_.emplace(key, e.at.line);
      if (!is_new)
        return wrong(e.at, fmt::format("{}: {} and {} are linked twice, first at line {}: give one link the sum of the "
                                       "bandwidths",
                                       e.where, name(a), name(b), before->second));
      if (out_.links.size() == most_links)
        return wrong(e.at, fmt::format("{}: wanted at most {} links in all, got more", e.where, most_links));
      out_.links.push_back(
          {.from = a, .to = b, .bytes_per_s = e.bytes_per_s, .latency_s = e.latency_s, .cost = e.cost});
      is_up_.push_back(is_up);
      return {};
    };
    if (e.is_forward) TROUPE_TRY(add(from, to, true));
    if (e.is_backward) TROUPE_TRY(add(to, from, false));
    return {};
  }

  /// Calls f(family, vertex) for all switches; ends at the first error.
  core::result<void> for_each_switch(const auto& f) const {
    for (const auto& n : nodes_)
      for (const auto& s : n.switches)
        for (uint64_t i = 0; i < n.count * s.count; ++i) TROUPE_TRY(f(s, static_cast<uint32_t>(s.first + i)));
    for (const auto& s : switches_)
      for (uint64_t i = 0; i < s.count; ++i) TROUPE_TRY(f(s, static_cast<uint32_t>(s.first + i)));
    return {};
  }
  core::result<void> check_switches() const {
    std::vector<bool> is_linked(out_.vertices());
    for (const auto& l : out_.links) is_linked[l.from] = is_linked[l.to] = true;
    return for_each_switch([&](const family& s, uint32_t v) -> core::result<void> {
      if (!is_linked[v]) return wrong(s.at, fmt::format("switch {} has no link", out_.vertex_names[v]));
      return {};
    });
  }

  /// Gives the uplinks of each oversubscribed switch, and their other directions, a limit that they share.
  core::result<void> limit_uplinks() {
    struct sides {
      double below_up = 0, below_down = 0;  // bytes a second over the links to the switch from below
      std::vector<uint32_t> up, down;       // its links to above, and from there
    };
    std::vector<sides> of(out_.vertices());
    for (uint32_t i = 0; i < out_.links.size(); ++i) {
      const network_link& l = out_.links[i];
      out_.capacities.push_back(l.bytes_per_s);
      const uint32_t lower = is_up_[i] ? l.from : l.to, upper = is_up_[i] ? l.to : l.from;
      (is_up_[i] ? of[upper].below_up : of[upper].below_down) += l.bytes_per_s;
      (is_up_[i] ? of[lower].up : of[lower].down).push_back(i);
    }
    return for_each_switch([&](const family& s, uint32_t v) -> core::result<void> {
      if (s.oversubscription == 0) return {};
      const auto limit = [&](double below, const std::vector<uint32_t>& links) {
        for (const uint32_t i : links) out_.links[i].limit = static_cast<uint32_t>(out_.capacities.size());
        if (!links.empty()) out_.capacities.push_back(below / s.oversubscription);
        return links.empty() || below > 0;
      };
      const sides& x = of[v];
      if ((x.up.empty() && x.down.empty()) || !limit(x.below_up, x.up) || !limit(x.below_down, x.down))
        return wrong(s.at,
                     fmt::format("switch {}: oversubscription wants links `to` the switch and links `from` it, in "
                                 "the same directions",
                                 out_.vertex_names[v]));
      return {};
    });
  }

  void index_links() {
    const auto index = [&](auto end, std::vector<uint32_t>& begin, std::vector<uint32_t>& links) {
      begin.assign(out_.vertices() + size_t{1}, 0);
      for (const auto& l : out_.links) ++begin[l.*end + size_t{1}];
      for (size_t v = 1; v < begin.size(); ++v) begin[v] += begin[v - 1];
      links.resize(out_.links.size());
      auto next = begin;
      for (uint32_t i = 0; i < out_.links.size(); ++i) links[next[out_.links[i].*end]++] = i;
    };
    index(&network_link::from, out_.out_begin, out_.out_links);
    index(&network_link::to, out_.in_begin, out_.in_links);
  }

  /// Refuses a device that the first device does not reach, or that does not reach the first one.
  [[nodiscard]] core::result<void> check_connected() const {
    for (const bool is_forward : {true, false}) {
      std::vector<bool> is_reached(out_.vertices());
      std::vector<uint32_t> open{0};
      is_reached[0] = true;
      while (!open.empty()) {
        const uint32_t v = open.back();
        open.pop_back();
        for (const uint32_t i : is_forward ? out_.links_from(v) : out_.links_to(v)) {
          const uint32_t next = is_forward ? out_.links[i].to : out_.links[i].from;
          if (is_reached[next]) continue;
          is_reached[next] = true;
          open.push_back(next);
        }
      }
      for (uint32_t d = 0; d < out_.devices(); ++d)
        if (!is_reached[d]) {
          const auto family = std::ranges::find_if(nodes_, [&](const node_family& n) {
            return d >= n.device.first && d < n.device.first + n.count * n.device.count;
          });
          const auto& name = out_.vertex_names;
          return wrong(family->at,
                       fmt::format("device {} cannot be reached: no way over links leads from {} to {}", name[d],
                                   is_forward ? name[0] : name[d], is_forward ? name[d] : name[0]));
        }
    }
    return {};
  }

  std::string file_;
  uint64_t ranks_ = 1;
  std::vector<node_family> nodes_;
  std::vector<family> switches_;
  network out_;
  std::vector<bool> is_up_;  // [link]: leads from the entry's `from` to its `to`
  std::unordered_map<uint64_t, int> line_of_link_;
};

}  // namespace

core::result<network> parse_network(std::string_view text, const std::string& file, uint32_t ranks) {
  const auto read = config::read_yaml(text, 0);
  if (!read.problems.empty()) {
    const auto& first = read.problems.front();
    return core::refused(
        fmt::format("{}:{}: {}{}{}", file, first.at.line, first.key, first.key.empty() ? "" : ": ", first.text));
  }
  return network_reader(file, ranks).read(*read.root);
}

core::result<network> read_network(const std::filesystem::path& file, uint32_t ranks) {
  const auto text = config::read_text(file);
  if (!text) return core::refused(fmt::format("{}: {}", file.string(), text.error()));
  return parse_network(*text, file.string(), ranks);
}

}  // namespace troupe::sim
