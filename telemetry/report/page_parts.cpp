#include "telemetry/report/page_parts.hpp"

#include "plan/kinds.hpp"

namespace troupe::telemetry {

std::string row_of(const cells& c, const char* tag, const char* kind) {
  std::string out = *kind == '\0' ? "<tr>" : std::string("<tr class=\"") + kind + "\">";
  for (const auto& x : c) out += std::string("<") + tag + ">" + x + "</" + tag + ">";
  return out + "</tr>\n";
}

std::string table_of(const cells& head, const std::string& rows) {
  return "<div class=\"wide\"><table><thead>" + row_of(head, "th") + "</thead><tbody>\n" + rows +
         "</tbody></table></div>\n";
}

std::string kind_style() {
  std::string light, dark, classes;
  for (const plan::kind_row& row : plan::kind_rows) {
    if (row.colour.light.empty()) continue;
    const std::string variable = "--" + std::string(row.name);
    light += variable + ":" + std::string(row.colour.light) + ";";
    dark += variable + ":" + std::string(row.colour.dark) + ";";
    classes += ".x-" + std::string(row.name) + "{fill:var(" + variable + ");background:var(" + variable + ")}\n";
  }
  return ":root{" + light + "}\n@media(prefers-color-scheme:dark){:root{" + dark + "}}\n" + classes;
}

}  // namespace troupe::telemetry
