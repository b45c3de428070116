// Several documents in one row (sample): attention stays inside each document, and positions begin at 0 in each. Owns
// the meaning of `document_start` (segment.hpp); attention, position embeddings and rotary angles use it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/sequence_columns.hpp"
#include "models/segment/segment.hpp"

namespace troupe::models {

/// A block of queries of one document, as columns of the row: queries [first, first + count); `document` is the first
/// column of the document, which is the first key that these queries may see, and `end` the column after its last one;
/// `own` is the index of the first query among the columns whose queries this rank computes.
struct query_block {
  int64_t first = 0, count = 0, document = 0, own = 0, end = 0;
  /// Returns the number of keys that at least one query of the block may see: [document, document + seen()). A query
  /// sees the keys up to its own column if attention is causal, else all keys of the document.
  [[nodiscard]] int64_t seen(bool causal = true) const { return (causal ? first + count : end) - document; }
};

/// Divides the columns `queries` of a row of `columns` columns into blocks of at most `block_queries` queries, in
/// order. No block spans two documents, so keys of other documents are never read. `starts` has, for each column, the
/// first column of its document; empty: the row is one document.
std::vector<query_block> query_blocks(const core::column_set& queries, int64_t block_queries, int64_t columns,
                                      std::span<const uint32_t> starts);

/// Throws c10::Error unless the document starts of every row are valid: the first is 0, and each further one is the
/// column itself (a document begins) or equal to the previous one.
void check_documents(const micro_batch& batch);

}  // namespace troupe::models
