// Several documents in one row: attention stays inside each, positions restart at each. Owns the meaning of
// `document_start`; the code of attention, position vectors and rotary angles explains its effect there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/sequence_columns.hpp"
#include "models/segment/segment.hpp"

namespace troupe::models {

/// A block of queries of one document: queries [first, first + count), and `document`, the start of the document, which
/// is the first key that these queries may see. `own`: index of the first query among the columns that attend.
struct query_block {
  int64_t first = 0, count = 0, document = 0, own = 0;
  /// Returns the number of keys of the block, which are [document, document + seen()); each query sees those up to
  /// itself.
  [[nodiscard]] int64_t seen() const { return first + count - document; }
};

/// Returns the blocks of the columns `queries` of a row in order, at most `block_queries` queries each, none across
/// documents: keys of other documents are never read. `starts` has the row's document starts; empty: the row is one
/// document.
std::vector<query_block> query_blocks(const core::column_set& queries, int64_t block_queries,
                                      std::span<const uint32_t> starts);

/// Throws c10::Error unless every row's starts begin with 0 and each is the column itself or the start before it.
void check_documents(const micro_batch& batch);

}  // namespace troupe::models
