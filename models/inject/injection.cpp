#include "models/inject/injection.hpp"
#include "core/text.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace troupe::models {
namespace {

namespace nn = torch::nn;
using core::parameter_cut;
using core::tp_style;

/// Returns the elements of a tensor that the tensor-parallel rank with coordinate `c` computes with, one part after
/// another without padding. `t` is the whole tensor, of shape `whole`, or already that rank's padded share.
at::Tensor part_of(const at::Tensor& t, const std::vector<int64_t>& whole, const parameter_cut& cut, uint32_t c) {
  if (!cut.cuts()) return t;
  const bool is_share = t.sizes() != at::IntArrayRef(whole);
  const auto dimension = static_cast<int64_t>(cut.dimension);
  std::vector<at::Tensor> slices;
  uint64_t from = 0;
  for (const core::tp_widths& widths : cut.parts) {
    const uint64_t before = std::accumulate(widths.begin(), widths.begin() + c, uint64_t{0});
    slices.push_back(
        t.narrow(dimension, static_cast<int64_t>(is_share ? from : from + before), static_cast<int64_t>(widths[c])));
    from += is_share ? core::widest_of(widths) : core::sum_of(widths);
  }
  const at::Tensor all = slices.size() == 1 ? slices.front() : at::cat(slices, dimension);
  return all.sizes() == t.sizes() ? t : all;
}

/// Returns `rows`, the rows of the vocabulary of coordinate `c`, at their positions in the whole table, with zeros in
/// all other rows.
at::Tensor among_zeros(const at::Tensor& rows, const parameter_cut& cut, uint32_t c) {
  const core::tp_widths& widths = cut.parts.front();
  const auto before = static_cast<int64_t>(std::accumulate(widths.begin(), widths.begin() + c, uint64_t{0}));
  const auto behind = static_cast<int64_t>(core::sum_of(widths)) - before - rows.size(0);
  return at::constant_pad_nd(rows, {0, 0, before, behind});
}

std::string full_name(const std::string& unit, const std::string& path) {
  return path.empty() ? unit : unit.empty() ? path : unit + "." + path;
}

}  // namespace

class injector {  ///< finds the layers below a module and decides for each whether and how it is split over ranks
 public:
  injector(const std::string& unit, const injection_policy& policy, uint32_t degree, uint32_t way)
      : unit_(unit), policy_(policy), way_(way) {
    out_.degree_ = degree;
  }

  core::result<injection> run(const std::shared_ptr<nn::Module>& tree) {
    if (tree == nullptr) return std::move(out_);
    list(tree);
    TROUPE_TRY(choose());
    for (found& f : found_) TROUPE_TRY(add(f));
    TROUPE_TRY(check_pairs());
    return std::move(out_);
  }

 private:
  struct found {
    std::shared_ptr<nn::Module> module;
    nn::LinearImpl* linear;
    nn::EmbeddingImpl* embedding;
    bool is_norm;
    std::string obstacle;  // reason why the layer cannot be split; empty if it can be
    injection_rule rule;
    injected_layer layer;
  };

  static core::error refused(const std::string& what) { return {error_kind::bad_input, "injection: " + what}; }

  void list(const std::shared_ptr<nn::Module>& tree) {
    // `seen`: modules visited so far. `inside`: linear layers whose weights torch's attention reads without calling
    // them.
    std::set<const nn::Module*> seen, inside;
    for (const auto& [path, module] : tree->named_modules().pairs()) {
      if (!seen.insert(module.get()).second) continue;
      if (const auto* a = dynamic_cast<const nn::MultiheadAttentionImpl*>(module.get()))
        inside.insert(a->out_proj.get());
      if (module->named_parameters(/*recurse=*/false).is_empty()) continue;
      found f{module,
              dynamic_cast<nn::LinearImpl*>(module.get()),
              dynamic_cast<nn::EmbeddingImpl*>(module.get()),
              dynamic_cast<nn::LayerNormImpl*>(module.get()) != nullptr,
              {},
              {},
              {}};
      f.layer.name = full_name(unit_, path);
      f.obstacle = inside.contains(module.get()) ? "a torch attention module uses its weight directly" : obstacle_of(f);
      found_.push_back(std::move(f));
    }
  }

  static std::string obstacle_of(const found& f) {
    if (f.is_norm) return "a norm reads whole rows";
    if (f.linear == nullptr && f.embedding == nullptr) return "neither a linear layer nor an embedding of torch's";
    if (f.embedding != nullptr && f.embedding->options.max_norm()) return "it has max_norm, which changes its rows";
    const at::Tensor& used = f.linear != nullptr ? f.linear->weight : f.embedding->weight;
    const auto registered = f.module->named_parameters(/*recurse=*/false);
    return registered.contains("weight") && registered["weight"].is_same(used)
               ? ""
               : "it computes with another weight than it registered";
  }

  /// Chooses for each layer the rule of the policy that applies to it, or a guess if no rule applies.
  core::result<void> choose() {
    bool any = false, named = false;
    for (found& f : found_) {
      TROUPE_ASSIGN(const auto rule, rule_of(policy_, f.layer.name));
      f.layer.why = f.obstacle;
      if (!f.obstacle.empty()) continue;
      if (rule == policy_.rules.size()) {
        f.layer.why = "no rule matches it";
        named = named || is_row_by_name(f);
        continue;
      }
      f.rule = policy_.rules[rule];
      const bool fits =
          f.linear != nullptr || f.rule.style == tp_style::vocabulary || f.rule.style == tp_style::replicated;
      if (!fits) {
        f.layer.why = "an embedding has neither columns nor rows";
        continue;
      }
      any = true;
      f.layer.rule = rule;
      f.layer.why = "rule " + core::in_quotes(f.rule.pattern);
    }
    if (named || (!any && policy_.heuristic)) guess(named);
    for (const found& f : found_)
      if (policy_.strict && f.linear != nullptr && f.obstacle.empty() && f.layer.why == "no rule matches it")
        return core::fail(refused("wanted a rule for each linear layer, as the policy is strict, got none for " +
                                  core::in_quotes(f.layer.name)));
    return {};
  }

  [[nodiscard]] bool is_row_by_name(const found& f) const {
    const auto ends = [&](const std::string& name) { return names_layer(name, f.layer.name); };
    return f.linear != nullptr && std::ranges::any_of(policy_.rows, ends);
  }

  /// Chooses how the layers without a rule are split (by columns, by rows, not at all): from the policy's names of row
  /// layers if `named`, else by the heuristic.
  void guess(bool named) {
    std::vector<listed_layer> listed;
    std::vector<found*> whose;
    for (found& f : found_) {
      if (!f.is_norm && (f.linear == nullptr || !f.obstacle.empty() || f.layer.rule != injected_layer::no_rule))
        continue;
      listed.push_back({f.layer.name, f.is_norm});
      whose.push_back(&f);
    }
    auto styles = guessed_styles(listed);
    for (size_t i = 0; i < whose.size(); ++i) {
      found& f = *whose[i];
      if (named) styles[i] = f.is_norm ? tp_style::replicated : is_row_by_name(f) ? tp_style::row : tp_style::column;
      f.rule.style = styles[i];
      if (f.is_norm) continue;
      f.layer.why = named ? "names of row layers" : "the heuristic";
      if (styles[i] == tp_style::replicated) f.layer.why += " finds no row layer";
    }
    std::vector<found*> rows;  // row layers; columns that no row layer follows are paired with the first of them
    for (found* f : whose)
      if (f->rule.style == tp_style::row) rows.push_back(f);
    if (!rows.empty()) choose_way(whose, rows, named);
  }

  /// Chooses, for cut number `way_`, how the outputs of column layers are packed, and which pairs of column and row
  /// layers are split: all, only the last or none. More than the last pair can be wrong, because a later layer in the
  /// same unit may need the sum over ranks, which is computed only after the unit.
  void choose_way(const std::vector<found*>& all, const std::vector<found*>& rows, bool named) {
    const size_t none = rows.size();
    std::vector<size_t> row_of(all.size(), none);
    std::vector<std::vector<std::vector<uint64_t>>> parts(all.size());
    size_t packings = 1, next = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const found& f = *all[i];
      if (f.is_norm) continue;
      row_of[i] = next < rows.size() ? next : 0;
      if (f.rule.style == tp_style::row) ++next;
      if (f.rule.style != tp_style::column) continue;
      parts[i] = likely_parts(static_cast<uint64_t>(f.linear->options.out_features()),
                              static_cast<uint64_t>(rows[row_of[i]]->linear->options.in_features()));
      packings = std::max(packings, parts[i].size());
    }
    // If the host names row layers, all pairs are split; guesses of the heuristic are tried in several sets.
    const size_t cut_sets = named ? 1 : rows.size() > 1 ? 2 : 1, cut_set = way_ / packings;
    out_.ways_ = static_cast<uint32_t>(packings * cut_sets + (named ? 0 : 1));
    for (size_t i = 0; i < all.size(); ++i) {
      found& f = *all[i];
      if (f.is_norm) continue;
      if (cut_set == cut_sets || (cut_set == 1 && row_of[i] + 1 != rows.size())) {
        f.rule.style = tp_style::replicated;
        f.layer.why = cut_set == cut_sets ? "with the heuristic's cut the unit computes other results"
                                          : "the heuristic cuts only layers before the unit's last row layer";
      } else if (f.rule.style == tp_style::column) {
        f.rule.parts = parts[i][std::min(way_ % packings, parts[i].size() - 1)];
      }
    }
  }

  core::result<core::tp_widths> widths(const found& f, uint64_t total) const {
    const uint32_t degree = out_.degree_, heads = f.rule.heads;
    if (heads > 0 && (total % heads != 0 || degree > heads))
      return core::fail(
          refused(fmt::format("{}: wanted heads that divide {} elements, at least one for each of {} ranks, got {}",
                              core::in_quotes(f.layer.name), total, degree, heads)));
    if (total < degree)
      return core::fail(refused(fmt::format("{}: wanted an element for each of {} ranks, got {}",
                                            core::in_quotes(f.layer.name), degree, total)));
    return heads > 0 ? core::dealt_by_heads(total, heads, degree) : core::dealt(total, degree, policy_.grain);
  }

  core::result<void> add(found& f) {
    f.layer.weight.style = f.rule.style;
    if (f.rule.style != tp_style::replicated && out_.degree_ > 1) {
      TROUPE_ASSIGN(auto p, place_of(f));
      f.layer.weight = p.cut;
      out_.places_.push_back(std::move(p));
    }
    out_.layers_.push_back(f.layer);
    return {};
  }

  core::result<injection::place> place_of(const found& f) const {
    injection::place p;
    p.module = f.module;
    p.shape = f.linear != nullptr
                  ? std::vector{f.linear->options.out_features(), f.linear->options.in_features()}
                  : std::vector{f.embedding->options.num_embeddings(), f.embedding->options.embedding_dim()};
    TROUPE_ASSIGN(auto cut, cut_of(f, p.shape));
    p.cut = std::move(cut);
    p.weight = f.linear != nullptr ? &f.linear->weight : &f.embedding->weight;
    p.own_weight = *p.weight;
    if (f.linear != nullptr && f.linear->bias.defined()) {
      p.bias = &f.linear->bias;
      p.own_bias = *p.bias;
      if (p.cut.style == tp_style::column) p.bias_cut = p.cut;
    }
    return p;
  }

  /// Returns the numbers of outputs of the layers that are packed in `total` outputs. Proportions that do not divide
  /// the outputs give parts with another sum, which cut_of() refuses.
  static std::vector<uint64_t> parts_in(const injection_rule& rule, uint64_t total) {
    if (!rule.parts.empty() || rule.ratio.empty()) return rule.parts.empty() ? std::vector{total} : rule.parts;
    const uint64_t whole = std::accumulate(rule.ratio.begin(), rule.ratio.end(), uint64_t{0});
    std::vector<uint64_t> out;
    for (const uint64_t share : rule.ratio) out.push_back(total / whole * share);
    return out;
  }

  core::result<parameter_cut> cut_of(const found& f, const std::vector<int64_t>& shape) const {
    const bool is_row = f.rule.style == tp_style::row, is_column = f.rule.style == tp_style::column;
    parameter_cut out{f.rule.style, is_row ? 1U : 0U, {}};
    const auto total = static_cast<uint64_t>(shape[out.dimension]);
    const std::vector<uint64_t> parts = parts_in(f.rule, total);
    if ((parts.size() > 1 && !is_column) || std::accumulate(parts.begin(), parts.end(), uint64_t{0}) != total)
      return core::fail(refused(
          fmt::format("{}: wanted parts that sum to the {} outputs of a column layer, got {} parts with another sum",
                      core::in_quotes(f.layer.name), total, parts.size())));
    for (const uint64_t part : parts) {
      TROUPE_ASSIGN(auto each, widths(f, part));
      out.parts.push_back(std::move(each));
    }
    return out;
  }

  /// Checks that the unit has both a layer cut by columns and a layer cut by rows, or neither: row layers combine the
  /// partial outputs of column layers.
  [[nodiscard]] core::result<void> check_pairs() const {
    const injected_layer *column = nullptr, *row = nullptr;
    for (const auto& l : out_.layers_) {
      if (l.weight.style == tp_style::column) column = &l;
      if (l.weight.style == tp_style::row) row = &l;
    }
    if ((column == nullptr) == (row == nullptr)) return {};
    const bool half = row == nullptr;
    return core::fail(refused(std::string("wanted a ") + (half ? "row" : "column") + " layer to match the " +
                              (half ? "column " : "row ") + core::in_quotes((half ? column : row)->name) + " in unit " +
                              core::in_quotes(unit_) + ", got none"));
  }

  const std::string& unit_;
  const injection_policy& policy_;
  size_t way_;
  std::vector<found> found_;
  injection out_;
};

core::result<injection> injection::make(const std::shared_ptr<nn::Module>& tree, const std::string& name,
                                        const injection_policy& policy, uint32_t degree, uint32_t way) {
  return injector(name, policy, degree, way).run(tree);
}

std::vector<injection::cut_parameter> injection::parameters() const {
  std::vector<cut_parameter> out;
  for (const place& p : places_) {
    out.push_back({p.own_weight, p.cut});
    if (p.bias_cut.cuts()) out.push_back({p.own_bias, p.bias_cut});
  }
  return out;
}

core::tp_widths injection::vocabulary() const {
  const bool is_only = places_.size() == 1 && places_.front().cut.style == tp_style::vocabulary;
  return is_only ? places_.front().cut.parts.front() : core::tp_widths();
}

void injection::sit(uint32_t c, bool in_columns) {
  const double share = share_of(c, degree_);
  for (place& p : places_) {
    at::Tensor part = part_of(p.own_weight, p.shape, p.cut, c);
    if (p.cut.style == tp_style::vocabulary && !in_columns) part = among_zeros(part, p.cut, c);
    *p.weight = p.cut.style == tp_style::column || in_columns ? part : part.mul(1 / share);
    if (p.bias == nullptr) continue;
    // Every rank has the whole bias of a vocabulary layer; with `in_columns` it uses only the part for its own columns.
    const bool columns_of_whole = in_columns && p.cut.style == tp_style::vocabulary;
    *p.bias = part_of(p.own_bias, {p.shape[0]}, columns_of_whole ? p.cut : p.bias_cut, c);
  }
}

void injection::revert() {
  for (place& p : places_) {
    *p.weight = p.own_weight;
    if (p.bias != nullptr) *p.bias = p.own_bias;
  }
}

std::string text_of(const std::vector<injected_layer>& layers) {
  size_t width = 0;
  for (const auto& l : layers) width = std::max(width, l.name.size());
  std::string out;
  for (const auto& l : layers) {
    const bool cut = l.weight.cuts();
    std::string line = l.name + std::string(width + 2 - l.name.size(), ' ');
    line += cut ? std::string(core::name_of(l.weight.style)) : std::string("whole");
    if (cut) line += " " + core::widths_text(l.weight);
    out += line + " (" + l.why + ")\n";
  }
  return out;
}

}  // namespace troupe::models
