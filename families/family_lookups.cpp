// Finds families by their names in files, and answers questions about all families at once.
#include "families/all_families.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace troupe::families {
namespace {

std::array<const size_key*, 9> sizes_of(const config_keys& k) {
  return {&k.layers, &k.width,     &k.heads,      &k.kv_heads,   &k.head_width,
          &k.inner,  &k.positions, &k.vocabulary, &k.token_types};
}

/// The beginning of names of models that are not trained here, and the family that is most like them.
struct relative {
  std::string_view begins, nearest;
};
constexpr relative relatives[] = {
    {"albert", "bert"},      {"camembert", "roberta"}, {"codellama", "llama"},   {"deberta", "bert"},
    {"distilbert", "bert"},  {"electra", "bert"},      {"gemma", "gemma2"},      {"gemma3", "gemma3_text"},
    {"gpt_bigcode", "gpt2"}, {"gpt_neo", "gpt_neox"},  {"gptj", "gpt_neox"},     {"gptneo", "gpt_neox"},
    {"granite", "granite"},  {"llama", "llama"},       {"ministral", "mistral"}, {"mistral", "mistral"},
    {"mixtral", "mistral"},  {"mllama", "llama"},      {"mobilebert", "bert"},   {"modernbert", "bert"},
    {"olmo", "olmo2"},       {"openai-gpt", "gpt2"},   {"phi", "phi3"},          {"qwen", "qwen2"},
    {"qwen3", "qwen3"},      {"roberta", "roberta"},   {"smollm", "smollm3"},    {"xlm-roberta", "roberta"}};

/// Number of characters of a name that are compared at most: a name in a file may have any length.
constexpr size_t most_compared = 80;
/// Largest number of differences between two names that are near.
constexpr size_t most_edits = 2;

/// Returns the name, by `name_of`, of the family nearest to the unknown name `wanted`; empty if none is near.
std::string_view nearest_of(std::string_view wanted, auto&& name_of) {
  const std::string name = core::lowered(wanted.substr(0, most_compared));
  size_t longest = 0;
  std::string_view out;
  for (const relative& r : relatives) {
    if (r.begins.size() <= longest || !name.starts_with(r.begins)) continue;
    const std::string_view its = name_of(*find(r.nearest));
    if (its.empty()) continue;
    longest = r.begins.size();
    out = its;
  }
  size_t least = most_edits + 1;
  for (const family* f : all) {
    if (longest > 0 || name_of(*f).empty() || name.empty()) continue;
    const size_t distance = core::edits(name, name_of(*f));
    if (distance >= least) continue;
    least = distance;
    out = name_of(*f);
  }
  return out;
}

std::string note_of(std::string_view nearest) {
  return nearest.empty() ? std::string() : " (the nearest is " + std::string(nearest) + ")";
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

std::string nearest_note(std::string_view model_type) {
  return note_of(nearest_of(model_type, [](const family& f) { return f.model_type; }));
}

std::string nearest_gguf_note(std::string_view architecture) {
  return note_of(nearest_of(architecture, [](const family& f) { return f.gguf.architecture; }));
}

const family* find_architecture(std::string_view architecture) {
  const auto at = std::ranges::find(all, architecture, &family::architecture);
  return at == all.end() ? nullptr : *at;
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
