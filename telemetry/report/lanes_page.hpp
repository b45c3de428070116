// Owns the page of lanes: one HTML file without dependencies, with a picture of ranks over time and tables below it.
// Leaves the picture's content to lanes_picture.hpp, its drawing to lanes_script.hpp, colours to report_style.hpp.
#pragma once

#include <string>
#include <vector>

#include "telemetry/report/lanes_picture.hpp"

namespace troupe::telemetry {

/// A table of a page, as text: the page escapes it. The first column is aligned to the left, the others to the right.
struct page_table {
  std::string heading;
  std::string note;  ///< a sentence below the heading; may be empty
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

struct lanes_page {
  std::string title;                ///< heading of the page, and title of its window
  std::string summary;              ///< the most important figures, as a sentence
  std::vector<std::string> errors;  ///< sentences that say what failed
  std::vector<std::string> notes;   ///< further sentences
  lanes_picture picture;
  std::vector<page_table> tables;
};

/// Returns the whole page. A picture with more than picture_ranks_limit ranks or picture_bars_limit bars is thinned,
/// and the page says so. Titles, names and cells are escaped: they are text, never markup.
std::string page_of(lanes_page page);

}  // namespace troupe::telemetry
