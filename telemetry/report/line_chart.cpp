#include <algorithm>
#include <cmath>

#include "telemetry/report/chart.hpp"
#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

// Size of a chart in pixels: about as wide as a phone, so that text keeps its size there.
constexpr double chart_width = 360, chart_height = 190, plot_left = 46, plot_right = 352, plot_top = 10,
                 plot_bottom = 166;

// Returns 1, 2 or 5 times a power of ten, so that about `wanted` such steps fill `range`.
double nice_step(double range, double wanted) {
  const double raw = range / wanted;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (double m : {1.0, 2.0, 5.0})
    if (raw <= m * power * 1.0000001) return m * power;
  return 10 * power;
}

struct axis {
  double least = 0, greatest = 1, step = 1;
  [[nodiscard]] std::string text(double v) const {
    if (std::abs(v) < step * 1e-6) return "0";
    const double largest = std::max(std::abs(least), std::abs(greatest));
    if (largest >= 10000) {
      std::string out = short_number(v);  // 30.0k becomes 30k
      const auto point = out.find('.'), end = out.find_last_of("0123456789");
      if (point == std::string::npos) return out;
      auto last = out.find_last_not_of('0', end);
      if (last == point) --last;
      return out.erase(last + 1, end - last);
    }
    if (largest < 0.01) {
      std::string out = text_of("%.1e", v);  // 2.0e-04 becomes 2e-4
      if (const auto at = out.find(".0e"); at != std::string::npos) out.erase(at, 2);
      if (const auto at = out.find("e-0"); at != std::string::npos) out.erase(at + 2, 1);
      return out;
    }
    return text_of("%.*f", std::clamp(int(-std::floor(std::log10(step) + 1e-9)), 0, 6), v);
  }
};

axis fitted(double least, double greatest, bool from_zero, double wanted) {
  if (from_zero) {
    least = std::min(0.0, least);
    greatest = std::max(0.0, greatest);
  }
  if (!(greatest - least > 1e-12 * std::max(std::abs(least), std::abs(greatest)))) {
    const double around = least == 0 ? 1 : std::abs(least) * 0.1;
    least = from_zero && least >= 0 ? 0 : least - around;
    greatest += around;
  }
  axis a;
  a.step = nice_step(greatest - least, wanted);
  a.least = std::floor(least / a.step + 1e-9) * a.step;
  a.greatest = std::ceil(greatest / a.step - 1e-9) * a.step;
  return a;
}

struct frame {
  double first_x, last_x;
  axis y;
  [[nodiscard]] double px(double x) const {
    return last_x > first_x ? plot_left + (plot_right - plot_left) * (x - first_x) / (last_x - first_x)
                            : (plot_left + plot_right) / 2;
  }
  [[nodiscard]] double py(double v) const {
    return plot_bottom - (plot_bottom - plot_top) * (v - y.least) / (y.greatest - y.least);
  }
  void add(std::string& path, double x, double v) const {
    path += text_of("%s%.1f %.1f", path.empty() ? "M" : "L", px(x), py(v));
  }
};

std::string raw_path(const frame& f, const thinned_series& s) {
  std::string path;
  for (const auto& b : s.bins()) {
    const bool least_first = b.least_x <= b.greatest_x;
    f.add(path, least_first ? b.least_x : b.greatest_x, least_first ? b.least : b.greatest);
    if (b.count > 1) f.add(path, least_first ? b.greatest_x : b.least_x, least_first ? b.greatest : b.least);
  }
  return path;
}

// Returns an SVG path of the running mean over a thirtieth of the curve around each point, narrower at the curve's
// ends; the mean does not lag behind the curve.
std::string smooth_path(const frame& f, const thinned_series& s) {
  std::string path;
  const auto& bins = s.bins();
  const size_t reach = std::max<size_t>(2, bins.size() / 60);
  for (size_t i = 0; i < bins.size(); ++i) {
    const size_t half = std::min({reach, i, bins.size() - 1 - i});
    double sum = 0;
    for (size_t k = i - half; k <= i + half; ++k) sum += bins[k].mean();
    f.add(path, bins[i].middle(), sum / double(2 * half + 1));
  }
  return path;
}

std::string points_of(const frame& f, const thinned_series& s) {
  std::string path, dots;
  for (const auto& b : s.bins()) {
    f.add(path, b.middle(), b.mean());
    if (s.bins().size() <= 60)
      dots += text_of("<circle class=\"c2 dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>", f.px(b.middle()), f.py(b.mean()));
  }
  return "<path class=\"c2 line\" d=\"" + path + "\"/>" + dots;
}

std::string grid(const frame& f) {
  std::string out;
  const axis& y = f.y;
  for (double v = y.least; v <= y.greatest + y.step * 0.5; v += y.step)
    out += text_of("<path class=\"grid\" d=\"M%.0f %.1fH%.0f\"/><text class=\"tick end\" x=\"%.0f\" y=\"%.1f\">",
                   plot_left, f.py(v), plot_right, plot_left - 6, f.py(v) + 3.5) +
           y.text(v) + "</text>";
  const double step = std::max(1.0, nice_step(std::max(1.0, f.last_x - f.first_x), 4));
  axis x{f.first_x, f.last_x, step};
  for (double v = std::ceil(f.first_x / step) * step; v <= f.last_x + 1e-9; v += step)
    out += text_of("<text class=\"tick mid\" x=\"%.1f\" y=\"%.0f\">", std::min(f.px(v), plot_right - 8),
                   plot_bottom + 16) +
           x.text(v) + "</text>";
  return out;
}

}  // namespace

std::string as_svg(const line_chart& c) {
  std::string head = "<figure class=\"card\"><figcaption><b>" + html_escaped(c.title) + "</b>";
  if (c.main == nullptr || c.main->empty()) return head + "</figcaption><p class=\"quiet\">no values</p></figure>\n";
  double least = INFINITY, greatest = -INFINITY;
  frame f{c.main->bins().front().first_x, c.main->bins().back().last_x, {}};
  for (const auto* s : {c.main, c.points})
    if (s != nullptr)
      for (const auto& b : s->bins()) {
        least = std::min(least, b.least);
        greatest = std::max(greatest, b.greatest);
        f.last_x = std::max(f.last_x, b.last_x);
        f.first_x = std::min(f.first_x, b.first_x);
      }
  f.y = fitted(least, greatest, c.from_zero, 4);
  const std::string last = short_number(c.main->last()) + (c.unit.empty() ? "" : " " + c.unit);
  const bool both = c.points != nullptr && !c.points->empty();
  head += both ? "<span><i class=\"key k1\"></i>" + html_escaped(last) + " &ensp;<i class=\"key k2\"></i>" +
                     html_escaped(c.points_name + " " + short_number(c.points->last())) + "</span>"
               : "<span>" + html_escaped(last) + "</span>";
  std::string out = head + "</figcaption>" +
                    text_of("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", chart_width, chart_height) +
                    html_escaped(c.title + " over steps, last " + last) + "\">" + grid(f);
  const bool smooth = c.smooth && c.main->bins().size() >= 40;
  out += std::string("<path class=\"c1 ") + (smooth ? "raw" : "line") + "\" d=\"" + raw_path(f, *c.main) + "\"/>";
  if (c.main->bins().size() == 1)
    out += text_of("<circle class=\"c1 dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>", f.px(f.first_x),
                   f.py(c.main->bins()[0].mean()));
  if (smooth) out += "<path class=\"c1 line\" d=\"" + smooth_path(f, *c.main) + "\"/>";
  if (both) out += points_of(f, *c.points);
  return out + "</svg></figure>\n";
}

}  // namespace troupe::telemetry
