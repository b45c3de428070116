// Lists all families that Troupe trains. A new family requires a file with its row, and its name in this file.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "families/family.hpp"

namespace troupe::families {

extern const family bert;
extern const family gemma2;
extern const family gemma3;
extern const family gpt2;
extern const family gpt_neox;
extern const family granite;
extern const family llama;
extern const family mistral;
extern const family olmo2;
extern const family phi3;
extern const family qwen2;
extern const family qwen3;
extern const family roberta;
extern const family smollm3;

inline constexpr std::array all{&gpt2,   &llama,  &mistral, &qwen2,    &qwen3,   &olmo2, &granite,
                                &gemma2, &gemma3, &phi3,    &gpt_neox, &smollm3, &bert,  &roberta};

/// Returns the family with this `model_type` in config.json; null if there is none.
const family* find(std::string_view model_type);
/// Returns the family with this `general.architecture` in GGUF files; null if there is none. Empty: null.
const family* find_gguf(std::string_view architecture);

/// Returns the names of all families, for messages: "gpt2, llama or mistral".
std::string names_joined();

/// Returns the family nearest to an unknown `model_type`, or to an unknown `general.architecture` of a GGUF file, for
/// messages: " (the nearest is gemma2)". Families that are related are near whatever their names; else names with few
/// differences are. Empty: none is near.
std::string nearest_note(std::string_view model_type);
std::string nearest_gguf_note(std::string_view architecture);

/// Returns the family whose models transformers calls `architecture` in config.json's key `architectures`; null if
/// there is none.
const family* find_architecture(std::string_view architecture);

/// Returns the name of the embedding's weight in state dicts, without the family's prefix.
std::string embedding_weight(const family& f);

/// Returns the name of the head's weight in state dicts.
std::string head_weight(const family& f);

/// True if the names or shapes of parameters depend on the key `key` of config.json, in any family.
bool is_size_key(std::string_view key);

/// Returns the other name under which transformers accepts the key `key` of a family's config.json; empty if there is
/// none.
std::string_view alias_of(const family& f, std::string_view key);

}  // namespace troupe::families
