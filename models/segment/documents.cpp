#include "models/segment/documents.hpp"

#include <c10/util/Exception.h>

#include <algorithm>

namespace troupe::models {

std::vector<query_block> query_blocks(const core::column_set& queries, int64_t block_queries, int64_t columns,
                                      std::span<const uint32_t> starts) {
  std::vector<query_block> out;
  int64_t own = 0;
  for (const core::column_run& run : queries.runs) {
    const int64_t last = run.first + run.count;
    for (int64_t begin = run.first, end = last; begin < last; begin = end, end = last) {
      int64_t document = 0, document_end = columns;
      if (!starts.empty()) {
        document = starts[static_cast<size_t>(begin)];
        document_end =
            std::find_if(starts.begin() + begin, starts.end(), [&](uint32_t s) { return s > begin; }) - starts.begin();
        end = std::min(last, document_end);
      }
      for (int64_t first = begin; first < end; first += block_queries) {
        const int64_t count = std::min(block_queries, end - first);
        out.push_back({first, count, document, own, document_end});
        own += count;
      }
    }
  }
  return out;
}

void check_documents(const micro_batch& batch) {
  const auto& starts = batch.document_start;
  if (starts.empty()) return;
  TORCH_CHECK(starts.size() == batch.rows * batch.columns, "a micro-batch of ", batch.rows, " x ", batch.columns,
              " wants ", batch.rows * batch.columns, " document starts or none, got ", starts.size());
  for (uint64_t i = 0; i < starts.size(); ++i) {
    const uint64_t column = i % batch.columns;
    const bool continues = column > 0 && starts[i] == starts[i - 1];
    TORCH_CHECK(continues || starts[i] == column, "the document start of row ", i / batch.columns, ", column ", column,
                ": wanted ", column, column > 0 ? " or the one before it" : "", ", got ", starts[i]);
  }
}

}  // namespace troupe::models
