#include "models/inject/own_layers.hpp"

#include <fmt/format.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/loss.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <map>
#include <set>
#include <typeinfo>
#include <utility>
#include <variant>

#include "models/inject/block.hpp"
#include "models/inject/layer_functions.hpp"

namespace troupe::models {
namespace {

namespace nn = torch::nn;

const char* const called_directly = "its module calls it directly, not through a Sequential";

/// A layer norm that replaces an entry of a torch Sequential and computes by Troupe's kernels. Derived from torch's
/// type for hosts that request that type from the Sequential; its weights are those of the host's layer, which stays
/// registered.
struct own_norm : nn::LayerNormImpl {
  explicit own_norm(const nn::LayerNormImpl& of)
      : nn::LayerNormImpl(nn::LayerNormOptions(of.options).elementwise_affine(false)) {
    options = of.options;
    weight = of.weight;
    bias = of.bias;
  }
  at::Tensor forward(const at::Tensor& x) { return own_layer_norm(*this, x); }
};

/// A module that calls a function of one tensor. Registers no weights, because the host's modules stay registered with
/// theirs.
struct calling_module final : replaceable {
  explicit calling_module(tensors_function f) : function(std::move(f)) {}
  at::Tensor forward(const at::Tensor& x) override { return function({x}); }
  tensors_function function;
};

/// A module that calls a function of two tensors, for a loss.
struct calling_loss final : nn::Module {
  explicit calling_loss(tensors_function f) : function(std::move(f)) {}
  at::Tensor forward(const at::Tensor& x, const at::Tensor& target) { return function({x, target}); }
  tensors_function function;
};

nn::AnyModule calling(size_t inputs, tensors_function f) {
  if (inputs == 2) return nn::AnyModule(std::make_shared<calling_loss>(std::move(f)));
  return nn::AnyModule(std::make_shared<calling_module>(std::move(f)));
}

tensors_function of_one(tensor_function f) {
  return [f = std::move(f)](const std::vector<at::Tensor>& x) { return f(x.front()); };
}

/// Returns a place that consists of consecutive entries of a Sequential: the first computes all of them, and the others
/// pass their input on.
own_layers::place entries_place(std::string path, const std::vector<nn::AnyModule*>& entries, size_t inputs,
                                tensors_function own) {
  const auto originals = std::make_shared<std::vector<nn::AnyModule>>();
  for (const nn::AnyModule* entry : entries) originals->push_back(*entry);
  own_layers::place out{.path = std::move(path), .inputs = inputs, .own = std::move(own)};
  out.original = [originals](const std::vector<at::Tensor>& x) {
    if (x.size() == 2) return originals->front().forward(x[0], x[1]);
    at::Tensor y = x.front();
    for (nn::AnyModule& each : *originals) y = each.forward(y);
    return y;
  };
  out.put = [entries, inputs](const tensors_function& f) {
    *entries.front() = calling(inputs, f);
    for (size_t i = 1; i < entries.size(); ++i)
      *entries[i] = calling(1, [](const std::vector<at::Tensor>& x) { return x.front(); });
  };
  out.revert = [entries, originals] {
    for (size_t i = 0; i < entries.size(); ++i) *entries[i] = (*originals)[i];
  };
  return out;
}

/// Returns a place that is an entry of a ModuleList of modules whose forward is virtual.
own_layers::place listed_place(std::string path, std::shared_ptr<nn::Module>* entry, tensors_function own) {
  const std::shared_ptr<nn::Module> original = *entry;
  own_layers::place out{.path = std::move(path), .own = std::move(own)};
  out.original = [original](const std::vector<at::Tensor>& x) {
    return dynamic_cast<replaceable&>(*original).forward(x.front());
  };
  out.put = [entry](const tensors_function& f) { *entry = std::make_shared<calling_module>(f); };
  out.revert = [entry, original] { *entry = original; };
  return out;
}

/// Returns the reason why Troupe's function cannot compute this embedding; empty if it can.
std::string obstacle_in(const nn::EmbeddingImpl& e) {
  const auto& o = e.options;
  if (typeid(e) != typeid(nn::EmbeddingImpl)) return "a class of the host's own, derived from torch's embedding";
  if (o.padding_idx() || o.max_norm() || o.scale_grad_by_freq() || o.sparse())
    return "an embedding with padding_idx, max_norm, scale_grad_by_freq or sparse";
  return "";
}

/// Returns the reason why Troupe's function cannot compute this cross-entropy loss; empty if it can.
std::string obstacle_in(const nn::CrossEntropyLossImpl& loss) {
  const auto& o = loss.options;
  if (o.weight().defined() || o.label_smoothing() != 0) return "a cross-entropy with weights or label smoothing";
  if (!std::holds_alternative<torch::enumtype::kMean>(o.reduction())) return "a cross-entropy that is no mean";
  return "";
}

}  // namespace

class replacement_finder {  ///< finds the places in a host's modules where Troupe's layers may be put
 public:
  replacement_finder(own_layers& out, bool is_called_alone, const layer_policy* policy,
                     const std::vector<own_layers::slot>& slots)
      : out_(out), alone_(is_called_alone), policy_(policy), slots_(slots) {}

  void run() {
    if (out_.tree_ != nullptr)
      for (const auto& item : out_.tree_->named_modules()) list(item.key(), item.value());
    for (const own_layers::slot& s : slots_) {
      const auto held = s.any->ptr();
      entries_.emplace(held.get(), s.any);
      for (const auto& item : held->named_modules(s.name)) list(item.key(), item.value());
    }
    for (const found& m : modules_) {
      if (!by_.contains(m.module.get()) && !is_left(m.path)) replace(m);
      if (policy_ != nullptr && !by_.contains(m.module.get()) && !is_left(m.path))
        if (auto* s = dynamic_cast<nn::SequentialImpl*>(m.module.get())) replace_runs(m.path, *s);
    }
    tell();
  }

 private:
  struct found {
    std::string path;
    std::shared_ptr<nn::Module> module;
  };

  void list(const std::string& path, const std::shared_ptr<nn::Module>& module) {
    if (!seen_.insert(module.get()).second) return;
    modules_.push_back({path, module});
    if (auto* s = dynamic_cast<nn::SequentialImpl*>(module.get()))
      for (nn::AnyModule& entry : *s) entries_.emplace(entry.ptr().get(), &entry);
    if (auto* l = dynamic_cast<nn::ModuleListImpl*>(module.get()))
      for (std::shared_ptr<nn::Module>& entry : *l)
        if (dynamic_cast<replaceable*>(entry.get()) != nullptr) listed_.emplace(entry.get(), &entry);
  }

  [[nodiscard]] bool is_left(const std::string& path) const {
    return policy_ != nullptr && std::ranges::any_of(policy_->leave, [&](const std::string& left) {
             return path == left || path.starts_with(left + ".");
           });
  }

  void replace(const found& m) {
    if (policy_ != nullptr && !policy_->paths.empty() && replace_block(m)) return;
    std::string& why = whys_[m.module.get()];
    const auto* loss = dynamic_cast<const nn::CrossEntropyLossImpl*>(m.module.get());
    if (loss != nullptr && policy_ != nullptr) {
      why = obstacle_in(*loss);
      if (!why.empty() || !entries_.contains(loss)) return;
      const int64_t ignored = loss->options.ignore_index();
      put(m, 2, "Troupe's cross-entropy",
          [ignored](const std::vector<at::Tensor>& x) { return own_cross_entropy(x[0], x[1], ignored); });
      return;
    }
    if (const auto e = std::dynamic_pointer_cast<nn::EmbeddingImpl>(m.module); e != nullptr && policy_ != nullptr) {
      why = obstacle_in(*e);
      if (why.empty())
        put_or_tell(m, "Troupe's embedding", [e](const at::Tensor& ids) { return own_embedding(e->weight, ids); });
      return;
    }
    if (!has_own_norm(*m.module, why)) return;
    const auto norm = std::dynamic_pointer_cast<nn::LayerNormImpl>(m.module);
    const auto entry = entries_.find(norm.get());
    if (put_or_tell(m, "Troupe's layer norm", [norm](const at::Tensor& x) { return own_layer_norm(*norm, x); }) &&
        entry != entries_.end()) {
      // The host may request this entry from the Sequential as a LayerNorm, so own_norm is derived from that class.
      const auto own = std::make_shared<nn::AnyModule>(std::make_shared<own_norm>(*norm));
      out_.places_.back().sit = [any = entry->second, own] { *any = *own; };
    }
  }

  /// Replaces the module by Troupe's block, or records the reason why it stays. Returns false if the module does not
  /// have the roles of the policy's blocks.
  bool replace_block(const found& m) {
    const found_block block = block_of(m.module, *policy_);
    if (!block.matches) {
      if (block.roles > most_roles_) {
        most_roles_ = block.roles;
        out_.nearest_ = fmt::format("'{}': {}", m.path.empty() ? "the module itself" : m.path, block.why);
      }
      return false;
    }
    ++out_.blocks_;
    if (block.forward == nullptr)
      whys_[m.module.get()] = block.why;
    else if (put_or_tell(m, fmt::format("block '{}' ({})", m.path, policy_->name), block.forward))
      out_.places_.back().attends = block.attends;
    return true;
  }

  /// Replaces a module of one input by Troupe's function, or records the reason why it cannot. Returns true if the
  /// module is an entry of a container, false if it is the unit's own module or is not replaced.
  bool put_or_tell(const found& m, const std::string& by, const tensor_function& own) {
    if (m.module == out_.tree_ && alone_) {
      out_.forward_ = own;
      cover(*m.module, by);
    } else if (entries_.contains(m.module.get()) || listed_.contains(m.module.get())) {
      put(m, 1, by, of_one(own));
      return true;
    } else {
      whys_[m.module.get()] = called_directly;
    }
    return false;
  }

  void put(const found& m, size_t inputs, const std::string& by, tensors_function own) {
    const auto entry = entries_.find(m.module.get());
    out_.places_.push_back(entry != entries_.end() ? entries_place(m.path, {entry->second}, inputs, std::move(own))
                                                   : listed_place(m.path, listed_.at(m.module.get()), std::move(own)));
    cover(*m.module, by);
  }

  /// Records that `by` computes a module and all modules below it.
  void cover(const nn::Module& module, const std::string& by) {
    for (const auto& item : module.named_modules()) by_.emplace(item.value().get(), by);
  }

  /// Replaces consecutive entries of a Sequential that form a norm with products, or an MLP, by Troupe's functions.
  void replace_runs(const std::string& path, nn::SequentialImpl& s) {
    std::vector<nn::AnyModule*> entries;
    std::vector<std::shared_ptr<nn::Module>> modules;
    for (nn::AnyModule& entry : s) {
      entries.push_back(&entry);
      modules.push_back(entry.ptr());
    }
    std::vector<std::string> names = s.named_children().keys();
    if (!path.empty())
      for (std::string& name : names) name.insert(0, path + ".");
    for (size_t i = 0, count = 0; i < entries.size(); i += std::max<size_t>(count, 1)) {
      std::vector<std::shared_ptr<nn::Module>> rest;
      for (size_t k = i; k < entries.size() && !by_.contains(modules[k].get()) && !is_left(names[k]); ++k)
        rest.push_back(modules[k]);
      const tensor_function own = run_of_layers(rest, count);
      if (own == nullptr) continue;
      const std::string& first = names[i];
      const auto begin = entries.begin() + static_cast<std::ptrdiff_t>(i);
      out_.places_.push_back(entries_place(first, {begin, begin + static_cast<std::ptrdiff_t>(count)}, 1, of_one(own)));
      for (size_t k = i; k < i + count; ++k)
        cover(*modules[k], count == 2 ? fmt::format("norm with products '{}'", first) : fmt::format("MLP '{}'", first));
    }
  }

  void tell() {
    for (const found& m : modules_) {
      const bool is_loss =
          policy_ != nullptr && dynamic_cast<const nn::CrossEntropyLossImpl*>(m.module.get()) != nullptr;
      const auto by = by_.find(m.module.get());
      if (m.module->named_parameters(/*recurse=*/false).is_empty() && !is_loss) {
        // A module without weights of its own is listed only if it is a block that is not replaced, for which there is
        // a reason.
        if (by != by_.end() || !whys_.contains(m.module.get()) || whys_[m.module.get()].empty() || policy_ == nullptr ||
            !block_of(m.module, *policy_).matches)
          continue;
      }
      own_layers::layer out{m.path, "", by != by_.end() ? by->second : std::string()};
      if (by == by_.end()) {
        out.why = is_left(m.path) ? "the policy leaves it" : whys_[m.module.get()];
        if (out.why.empty()) out.why = is_loss ? called_directly : "Troupe has no separate kernel for it";
      }
      out_.layers_.push_back(std::move(out));
    }
  }

  own_layers& out_;
  bool alone_;
  const layer_policy* policy_;
  const std::vector<own_layers::slot>& slots_;
  std::vector<found> modules_;  // all modules, each once, parents before their children
  std::set<const nn::Module*> seen_;
  // Entries of Sequentials and AnyModules of the host's, which are called without knowing their type; entries of
  // ModuleLists that are `replaceable`.
  std::map<const nn::Module*, nn::AnyModule*> entries_;
  std::map<const nn::Module*, std::shared_ptr<nn::Module>*> listed_;
  // description of what computes a module; reason why a module is not replaced
  std::map<const nn::Module*, std::string> by_, whys_;
  size_t most_roles_ = 0;
};

own_layers::own_layers(const std::shared_ptr<nn::Module>& tree, bool is_called_alone, const layer_policy* policy,
                       const std::vector<slot>& slots)
    : tree_(tree) {
  replacement_finder(*this, is_called_alone, policy, slots).run();
}

void own_layers::sit() {
  sits_ = true;
  for (const place& p : places_) p.sit ? p.sit() : p.put(p.own);
}

void own_layers::revert() {
  if (!std::exchange(sits_, false)) return;
  for (const place& p : places_) p.revert();
}

std::string text_of(const std::vector<own_layers::layer>& layers) {
  size_t width = 0;
  for (const auto& l : layers) width = std::max(width, l.path.size());
  std::string out;
  for (const auto& l : layers)
    out += l.why.empty() ? fmt::format("{:<{}}  {}\n", l.path, width, l.by)
                         : fmt::format("{:<{}}  torch's: {}\n", l.path, width, l.why);
  return out;
}

}  // namespace troupe::models
