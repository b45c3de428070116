// The embedding segment: it has no input to differentiate and therefore no graph; its gradient is written directly.
#pragma once

#include <memory>
#include <optional>

#include "models/segment/segment_scope.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

/// The layers of an embedding, and numbers that they share.
struct embedding_layers {
  weight tokens;  ///< weight with the vectors of the tokens `own`
  vocabulary_rows own = {};
  std::optional<uint32_t> padding = {};  ///< token whose row gets the gradient 0
  std::optional<weight> positions = {}, types = {};
  int64_t first_position = 0;  ///< row of `positions` that the first token of a document has
  double scale = 1;            ///< factor of the token vectors
  float dropout = 0;
};

/// Runs the embedding: token vectors times the scale, plus the vector of type 0 and position vectors if the family has
/// them, then dropout. Vectors of tokens that this rank does not have are zero, and the other vectors are added only if
/// segment_scope::leads(), because the outputs of tensor-parallel ranks are summed. Throws for the padding token in a
/// text if positions do not begin at 0: transformers gives it no position.
std::unique_ptr<segment_run> run_embedding(segment_scope& scope, const embedding_layers& layers);

}  // namespace troupe::models
