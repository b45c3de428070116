#include "formats/deepspeed/lists.hpp"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "formats/safetensors/header.hpp"

namespace troupe::formats {
namespace {

using core::refused;

/// Returns the value of `key` in the file's root dict if it exists and is of `kind`.
std::optional<pickle_ref> find(const torch_archive& file, const char* key, pickle_kind kind) {
  const auto v = file.tree().find(file.root(), key);
  return v && file.tree().kind(*v) == kind ? v : std::nullopt;
}

core::result<named_shapes> shapes_of(const torch_archive& file, pickle_ref dict, const char* what) {
  const auto items = file.tree().items(dict);
  if (file.tree().kind(dict) != pickle_kind::dict) return refused(fmt::format("{} is not a dict", what));
  named_shapes out;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (file.tree().kind(items[i]) != pickle_kind::text) return refused(fmt::format("a name in {} is not text", what));
    auto shape = file.shape(items[i + 1]);
    const std::string name(file.tree().text(items[i]));
    if (!shape) return fail(shape.error().in(fmt::format("{} of '{}'", what, shown(name))));
    if (!bytes_of(core::dtype::f64, *shape))
      return refused(fmt::format("{} of '{}' is too large for any file", what, shown(name)));
    out.emplace_back(name, std::move(*shape));
  }
  return out;
}

core::result<void> read_lists(const torch_archive& file, deepspeed_lists& out) {
  const auto& tree = file.tree();
  if (const auto names = find(file, "buffer_names", pickle_kind::list))
    for (const pickle_ref v : tree.items(*names)) {
      if (tree.kind(v) != pickle_kind::text) return refused("the name of a buffer is not text");
      out.buffers.emplace_back(tree.text(v));
    }
  if (const auto list = find(file, "param_shapes", pickle_kind::list)) {
    out.has_groups = true;
    for (const pickle_ref group : tree.items(*list)) {
      TROUPE_ASSIGN(auto shapes, shapes_of(file, group, "param_shapes"));
      out.groups.push_back(std::move(shapes));
    }
  }
  if (const auto dict = find(file, "frozen_param_shapes", pickle_kind::dict)) {
    TROUPE_ASSIGN(auto shapes, shapes_of(file, *dict, "frozen_param_shapes"));
    out.frozen = std::move(shapes);
  }
  if (const auto dict = find(file, "shared_params", pickle_kind::dict)) {
    const auto items = tree.items(*dict);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (tree.kind(items[i]) != pickle_kind::text || tree.kind(items[i + 1]) != pickle_kind::text)
        return refused("the name of a shared parameter is not text");
      out.shared.emplace_back(tree.text(items[i]), tree.text(items[i + 1]));
    }
  }
  return {};
}

}  // namespace

core::result<named_tensors> tensors_of(const torch_archive& file, pickle_ref dict, std::vector<unread_tensor>* unread) {
  const auto& tree = file.tree();
  const auto items = tree.items(dict);
  named_tensors out;
  for (size_t i = 0; tree.kind(dict) == pickle_kind::dict && i + 1 < items.size(); i += 2) {
    if (tree.kind(items[i]) != pickle_kind::text || !file.is_tensor(items[i + 1])) continue;
    if (auto type = file.unread_type(items[i + 1]); unread != nullptr && !type.empty()) {
      unread->push_back({std::string(tree.text(items[i])), std::move(type)});
      continue;
    }
    auto tensor = file.tensor(items[i + 1]);
    if (!tensor) return fail(tensor.error().in(fmt::format("tensor '{}'", shown(tree.text(items[i])))));
    out.emplace_back(tree.text(items[i]), std::move(*tensor));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> aliases_in(const named_tensors& tensors) {
  using place = std::tuple<uint64_t, std::vector<int64_t>, std::vector<int64_t>, core::dtype>;
  std::map<place, const std::string*> first;
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [name, t] : tensors) {
    if (t.numel == 0) continue;
    const auto [at, is_new] = first.try_emplace({t.begin, t.shape, t.strides, t.type}, &name);
    if (!is_new) out.emplace_back(name, *at->second);
  }
  return out;
}

core::result<deepspeed_lists> read_deepspeed_lists(const torch_archive& file) {
  const auto& tree = file.tree();
  const auto module = tree.find(file.root(), "module");
  if (!module || !tree.find(file.root(), "ds_version"))
    return refused(fmt::format("'{}': not a model file of DeepSpeed: it must have the keys 'module' and 'ds_version'",
                               file.name()));
  deepspeed_lists out;
  auto tensors = tensors_of(file, *module, &out.unread);
  if (!tensors) return fail(tensors.error().in(fmt::format("'{}'", file.name())));
  out.module = std::move(*tensors);
  if (auto ok = read_lists(file, out); !ok) return fail(ok.error().in(fmt::format("'{}'", file.name())));
  return out;
}

}  // namespace troupe::formats
