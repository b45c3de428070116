#include "job/model/adapters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "config/keys/key_table.hpp"
#include "core/text.hpp"
#include "formats/peft/adapter_folder.hpp"

namespace troupe::job {
namespace {

using core::layer_info;
using core::layer_kind;
using formats::peft_adapter;

/// Target that stands for every linear layer except the head, as in PEFT.
constexpr std::string_view all_linear = "all-linear";
/// Number of names that a refusal lists at most.
constexpr size_t names_listed = 3;

bool is_named(std::string_view layer, std::string_view name) {
  return layer == name || (layer.size() > name.size() && layer.ends_with(name) &&
                           layer[layer.size() - name.size() - 1] == '.');
}

std::string_view last_part(std::string_view layer) { return layer.substr(layer.rfind('.') + 1); }

tl::unexpected<adapter_problem> problem(std::string key, std::string text) {
  return tl::unexpected(adapter_problem{std::move(key), std::move(text)});
}

template <class T>
using chosen = tl::expected<T, adapter_problem>;

/// Chooses the adapters of one model.
class adapter_choice {
 public:
  adapter_choice(const config::lora_section& lora, const models::model_spec& spec)
      : lora_(lora), table_(models::make_model_table(spec, 1, 1, sizeof(float))) {}

  chosen<std::optional<models::adapter_spec>> run() {
    if (!lora_.from.empty()) {
      auto opened = peft_adapter::open(lora_.from);
      if (!opened) return tl::unexpected(adapter_problem{"lora.from", opened.error().text, opened.error().kind});
      from_ = std::move(*opened);
    }
    models::adapter_spec out;
    if (auto ok = numbers(out); !ok) return tl::unexpected(ok.error());
    auto layers = lora_.targets.empty() ? layers_of_folder() : layers_named();
    if (!layers) return tl::unexpected(std::move(layers.error()));
    if (from_ != nullptr && !lora_.targets.empty())
      if (auto ok = same_layers(*layers); !ok) return tl::unexpected(ok.error());
    auto trained = trained_layers(*layers);
    if (!trained) return tl::unexpected(std::move(trained.error()));
    for (const layer_info& l : table_.layers) {
      if (layers->contains(l.name)) out.layers.push_back(l.name);
      if (trained->contains(l.name)) out.trained.push_back(l.name);
    }
    if (from_ != nullptr)
      if (auto ok = fits(out); !ok) return tl::unexpected(ok.error());
    out.targets = short_names(*layers);
    return out;
  }

 private:
  using names = std::set<std::string, std::less<>>;

  /// Sets rank, factor, dropout and initial values; an option of the folder that the section also gives must be equal.
  [[nodiscard]] chosen<void> numbers(models::adapter_spec& out) const {
    const formats::adapter_options there = from_ != nullptr ? from_->options() : formats::adapter_options{};
    const auto differs = [&](const char* key, auto own, auto theirs) {
      return problem(key, fmt::format("wanted {}, as in '{}' (lora.from), got {}", theirs, lora_.from.string(), own));
    };
    const bool has_folder = from_ != nullptr;
    if (has_folder && lora_.r_given && lora_.r != there.rank) return differs("lora.r", lora_.r, there.rank);
    if (has_folder && lora_.alpha_given && lora_.alpha != there.alpha)
      return differs("lora.alpha", lora_.alpha, there.alpha);
    if (has_folder && lora_.rslora_given && lora_.rslora != there.by_root)
      return differs("lora.rslora", lora_.rslora, there.by_root);
    out.rank = static_cast<uint32_t>(has_folder ? there.rank : lora_.r);
    out.alpha = has_folder ? there.alpha : lora_.alpha;
    out.by_root = has_folder ? there.by_root : lora_.rslora;
    out.dropout = static_cast<float>(lora_.dropout);
    out.is_normal = lora_.init == "gaussian";
    return {};
  }

  /// True for a linear layer that may have an adapter: any but the head, which is the last layer of the table.
  [[nodiscard]] bool may_have_adapter(const layer_info& l) const {
    return l.kind == layer_kind::linear && &l != &table_.layers.back();
  }

  [[nodiscard]] chosen<names> layers_named() const {
    names out;
    for (const std::string& target : lora_.targets) {
      size_t found = 0;
      for (const layer_info& l : table_.layers) {
        if (target == all_linear ? !may_have_adapter(l) : !is_named(l.name, target)) continue;
        if (!may_have_adapter(l)) return problem("lora.targets", why_not(target, l));
        out.insert(l.name);
        ++found;
      }
      if (found == 0) return problem("lora.targets", nothing_named(target));
    }
    return out;
  }
  [[nodiscard]] static std::string why_not(const std::string& target, const layer_info& l) {
    if (l.kind == layer_kind::linear)
      return fmt::format("wanted linear layers before the head, got '{}', the head; lora.modules_to_save trains its "
                         "own weight",
                         core::shown(target));
    return fmt::format("wanted linear layers, got '{}': {} is a layer of kind {}", core::shown(target), l.name,
                       core::name_of(l.kind));
  }
  /// Returns the refusal of a name that no layer has, with the names that are most like it.
  [[nodiscard]] std::string nothing_named(const std::string& target) const {
    constexpr std::string_view of_patterns = "*?[]()|^$+{}\\";
    if (target.find_first_of(of_patterns) != std::string::npos)
      return fmt::format("wanted names of linear layers, or their last parts, got the pattern '{}', and patterns are "
                         "not read",
                         core::shown(target));
    constexpr size_t most_compared = 80;
    const std::string_view wanted = std::string_view(target).substr(0, most_compared);
    std::set<std::string_view> all;
    for (const layer_info& l : table_.layers)
      if (may_have_adapter(l)) all.insert(last_part(l.name));
    std::vector<std::pair<size_t, std::string_view>> by_distance;
    for (const std::string_view name : all)
      by_distance.emplace_back(config::edits(last_part(wanted), name), name);
    std::ranges::sort(by_distance);
    std::vector<std::string_view> nearest;
    for (size_t i = 0; i < std::min(by_distance.size(), names_listed); ++i) nearest.push_back(by_distance[i].second);
    return fmt::format("wanted names of linear layers, or their last parts, or all-linear, got '{}', which no layer "
                       "has; the nearest are {}",
                       core::shown(target), fmt::join(nearest, ", "));
  }

  [[nodiscard]] chosen<names> layers_of_folder() const {
    names out;
    for (const auto& layer : from_->layers()) {
      const auto at = std::ranges::find(table_.layers, layer.name, &layer_info::name);
      if (at == table_.layers.end() || !may_have_adapter(*at))
        return other_base(fmt::format("this model has no linear layer '{}'{}", core::shown(layer.name),
                                      at == table_.layers.end() ? "" : " that may have an adapter"));
      out.insert(layer.name);
    }
    return out;
  }
  [[nodiscard]] chosen<void> same_layers(const names& wanted) const {
    const auto theirs = layers_of_folder();
    if (!theirs) return tl::unexpected(theirs.error());
    for (const std::string& name : wanted)
      if (!theirs->contains(name))
        return problem("lora.targets", fmt::format("wanted the layers of '{}' (lora.from), got '{}', which has no "
                                                   "adapter there; remove the key",
                                                   lora_.from.string(), name));
    for (const std::string& name : *theirs)
      if (!wanted.contains(name))
        return problem("lora.targets", fmt::format("wanted the layers of '{}' (lora.from), got none for '{}', which "
                                                   "has an adapter there; remove the key",
                                                   lora_.from.string(), name));
    return {};
  }

  /// Returns the layers whose own parameters are trained: those that the section names, and those that the folder has.
  [[nodiscard]] chosen<names> trained_layers(const names& adapted) const {
    constexpr const char* key = "lora.modules_to_save";
    names out;
    for (const std::string& wanted : lora_.modules_to_save) {
      size_t found = 0;
      for (const layer_info& l : table_.layers) {
        if (l.parameters.empty() || !is_named(l.name, wanted)) continue;
        if (adapted.contains(l.name))
          return problem(key, fmt::format("wanted layers without an adapter, got '{}', which has one (lora.targets)",
                                          l.name));
        if (const auto* other = sharing_with(l))
          return problem(key, fmt::format("wanted layers with weights of their own, got '{}', which shares its weight "
                                          "with '{}'",
                                          l.name, other->name));
        out.insert(l.name);
        ++found;
      }
      if (found == 0)
        return problem(key, fmt::format("wanted names of layers, or their last parts, got '{}', which no layer with "
                                        "parameters has",
                                        core::shown(wanted)));
    }
    if (from_ == nullptr) return out;
    for (const auto& p : from_->parameters()) {
      const auto at = std::ranges::find_if(table_.layers, [&](const layer_info& l) {
        return std::ranges::any_of(l.parameters, [&](uint32_t q) { return table_.parameters[q].name == p.name; });
      });
      if (at == table_.layers.end())
        return other_base(fmt::format("this model has no parameter '{}'", core::shown(p.name)));
      if (const auto* other = sharing_with(*at))
        return problem("lora.from",
                       fmt::format("'{}': it changes '{}', which shares its weight with '{}' in this model",
                                   lora_.from.string(), at->name, other->name));
      out.insert(at->name);
    }
    return out;
  }
  /// Returns another layer that reads a parameter of `l`, such as the head that has the embedding's weight; null if
  /// there is none.
  [[nodiscard]] const layer_info* sharing_with(const layer_info& l) const {
    for (const layer_info& other : table_.layers)
      if (&other != &l)
        for (const uint32_t q : l.parameters)
          if (std::ranges::find(other.parameters, q) != other.parameters.end()) return &other;
    return nullptr;
  }

  /// Checks that the folder's tensors have the shapes of this model's adapters and trained parameters, and that none is
  /// missing.
  [[nodiscard]] chosen<void> fits(const models::adapter_spec& spec) const {
    core::model_table table = table_;
    models::add_adapters(spec, 1, sizeof(float), table);
    for (const core::parameter_info& p : table.parameters) {
      if (!p.trainable) continue;
      const auto* const entry = from_->find(p.name);
      if (entry == nullptr && !p.of_adapter) continue;  // a layer that only this run trains begins as in the base
      if (entry == nullptr) return other_base(fmt::format("it has no tensor for '{}'", p.name));
      if (entry->shape != p.shape)
        return other_base(fmt::format("'{}' has the shape {} there, and {} in this model", p.name,
                                      core::shape_text(entry->shape), core::shape_text(p.shape)));
    }
    return {};
  }
  [[nodiscard]] tl::unexpected<adapter_problem> other_base(const std::string& why) const {
    const std::string& base = from_->options().base;
    return tl::unexpected(adapter_problem{
        "lora.from",
        fmt::format("'{}' is no adapter of this model: {}{}", lora_.from.string(), why,
                    base.empty() ? "" : fmt::format("; its base is '{}'", core::shown(base))),
        core::error_kind::mismatch});
  }

  /// Returns names that select exactly `layers`: the last part of a layer's name if all layers with this last part are
  /// among them, else the whole name.
  [[nodiscard]] std::vector<std::string> short_names(const names& layers) const {
    std::map<std::string_view, bool> is_whole;  // [last part]: true if all layers with it have adapters
    for (const layer_info& l : table_.layers) {
      const auto at = is_whole.emplace(last_part(l.name), true).first;
      at->second = at->second && layers.contains(l.name);
    }
    names out;
    for (const std::string& name : layers)
      out.insert(is_whole.at(last_part(name)) ? std::string(last_part(name)) : name);
    return {out.begin(), out.end()};
  }

  const config::lora_section& lora_;
  core::model_table table_;
  std::unique_ptr<peft_adapter> from_;  // the folder that the adapters begin with; null: none
};

formats::adapter_options file_options(const models::model_spec& spec, const std::filesystem::path& base) {
  const models::adapter_spec& adapters = *spec.adapters;
  formats::adapter_options out;
  out.rank = adapters.rank;
  out.alpha = adapters.alpha;
  out.dropout = double{adapters.dropout};
  out.by_root = adapters.by_root;
  out.is_normal = adapters.is_normal;
  out.is_in_out = spec.family->layout == core::weight_layout::in_out;
  out.base = base.string();
  out.task = spec.family->is_encoder ? "" : "CAUSAL_LM";
  out.targets = adapters.targets;
  out.modules_to_save = adapters.trained;
  return out;
}

}  // namespace

tl::expected<std::optional<models::adapter_spec>, adapter_problem> choose_adapters(const config::lora_section& lora,
                                                                                   const models::model_spec& spec) {
  if (!lora.given || (lora.targets.empty() && lora.from.empty())) return std::nullopt;
  return adapter_choice(lora, spec).run();
}

uint64_t adapter_bytes(const core::model_table& table) {
  uint64_t elements = 0;
  for (const core::parameter_info& p : table.parameters)
    if ((p.trainable || p.of_adapter) && !p.is_copy()) elements += p.numel();
  return elements * sizeof(float);
}

std::string adapters_sentence(const core::model_table& table) {
  uint64_t layers = 0, trained = 0;
  int64_t rank = 0;
  for (const layer_info& l : table.layers) {
    if (!l.adapter) continue;
    ++layers;
    rank = table.parameters[l.adapter->a].shape.front();
  }
  if (layers == 0) return {};
  for (const core::parameter_info& p : table.parameters) trained += p.trainable && !p.is_copy() ? p.numel() : 0;
  return fmt::format("adapters of rank {} in {} layers: {} of {} parameters are trained; the others have no gradients "
                     "and no optimizer states",
                     rank, layers, trained, table.numel());
}

core::result<void> write_adapters(const std::filesystem::path& folder, const models::model_spec& spec,
                                  const std::filesystem::path& base, const named_reader& read) {
  const core::model_table table = models::make_model_table(spec, 1, 1, sizeof(float));
  std::vector<formats::tensor_to_write> tensors;
  for (const core::parameter_info& p : table.parameters) {
    if (!p.trainable) continue;
    tensors.push_back({.name = p.name,
                       .type = core::dtype::f32,
                       .shape = p.shape,
                       .source = [&read, name = p.name](uint64_t offset_bytes, std::span<std::byte> out) {
                         std::vector<float> values(out.size() / sizeof(float));
                         auto ok = read(name, offset_bytes / sizeof(float), values);
                         if (ok) std::ranges::copy(std::as_bytes(std::span(values)), out.begin());
                         return ok;
                       }});
  }
  return formats::write_adapter(folder, file_options(spec, base), std::move(tensors));
}

}  // namespace troupe::job
