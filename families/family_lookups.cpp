// Finds families by their names in files, and answers questions about all families at once.
#include "families/all_families.hpp"

#include <algorithm>

namespace troupe::families {
namespace {

std::array<const size_key*, 9> sizes_of(const config_keys& k) {
  return {&k.layers, &k.width,     &k.heads,      &k.kv_heads,   &k.head_width,
          &k.inner,  &k.positions, &k.vocabulary, &k.token_types};
}

}  // namespace

const family* find(std::string_view model_type) {
  const auto at = std::ranges::find(all, model_type, &family::model_type);
  return at == all.end() ? nullptr : *at;
}

const family* find_gguf(std::string_view architecture) {
  const auto at = std::ranges::find_if(
      all, [&](const family* f) { return !architecture.empty() && f->gguf.architecture == architecture; });
  return at == all.end() ? nullptr : *at;
}

std::string names_joined() {
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0) out += i + 1 == all.size() ? " or " : ", ";
    out += all[i]->model_type;
  }
  return out;
}

std::string embedding_weight(const family& f) { return std::string(f.names.embedding) + ".weight"; }

std::string head_weight(const family& f) { return std::string(f.names.head) + ".weight"; }

bool is_size_key(std::string_view key) {
  return std::ranges::any_of(all, [&](const family* f) {
    const auto& k = f->keys;
    return std::ranges::any_of(sizes_of(k), [&](const size_key* s) { return s->name == key; }) || key == k.tied.name ||
           key == k.attention_bias.name || key == k.mlp_bias.name;
  });
}

std::string_view alias_of(const family& f, std::string_view key) {
  for (const size_key* s : sizes_of(f.keys))
    if (s->name == key) return s->alias;
  return {};
}

}  // namespace troupe::families
