// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Metrics && Tools
import Testing

/// The histograms of a page of Prometheus' text format 0.0.4. What is not of the format is an error.
struct HistogramPage {
  struct Wrong: Error { let line: String }

  struct Histogram {
    var buckets: [(bound: Double, count: Int)] = []
    var sum = 0.0
    var count = 0
  }

  private struct Series: Hashable {
    let name: String
    let labels: [String: String]
  }

  private(set) var names: [String] = []
  private var histograms: [Series: Histogram] = [:]

  init(_ text: String) throws {
    guard text.unicodeScalars.last == "\n" else { throw Wrong(line: "no line feed at the end") }
    var helped: String?
    for scalars in text.unicodeScalars.dropLast().split(
      separator: "\n", omittingEmptySubsequences: false)
    {
      let line = String(String.UnicodeScalarView(scalars))
      let words = line.split(separator: " ")
      if line.hasPrefix("# HELP "), words.count > 3 {
        helped = String(words[2])
      } else if line.hasPrefix("# TYPE "), words.count == 4 {
        guard helped == String(words[2]), words[3] == "histogram", !names.contains(helped!) else {
          throw Wrong(line: line)
        }
        names.append(helped!)
      } else {
        try read(line)
      }
    }
  }

  func histogram(_ name: String, _ labels: [String: String]) throws -> Histogram {
    try #require(histograms[Series(name: name, labels: labels)], "\(name) \(labels)")
  }

  private mutating func read(_ line: String) throws {
    guard let name = names.last, line.hasPrefix(name + "_"), let brace = line.firstIndex(of: "{"),
      var labels = try? Self.labels(line[brace...], line), let value = Double(labels.rest)
    else { throw Wrong(line: line) }
    let part = line[line.index(line.startIndex, offsetBy: name.count + 1)..<brace]
    let bound = labels.found.removeValue(forKey: "le")
    let series = Series(name: name, labels: labels.found)
    switch (part, bound) {
    case ("bucket", let bound?):
      guard let number = bound == "+Inf" ? .infinity : Double(bound) else {
        throw Wrong(line: line)
      }
      histograms[series, default: Histogram()].buckets.append((number, Int(value)))
    case ("sum", nil): histograms[series]?.sum = value
    case ("count", nil): histograms[series]?.count = Int(value)
    default: throw Wrong(line: line)
    }
  }

  /// Reads labels in braces, and returns what follows the space after them.
  private static func labels(
    _ text: Substring, _ line: String
  ) throws -> (found: [String: String], rest: Substring) {
    var found: [String: String] = [:]
    var left = text.dropFirst()
    while let equals = left.firstIndex(of: "=") {
      let name = String(left[..<equals])
      var value = ""
      left = left[equals...].dropFirst()
      guard left.popFirst() == "\"" else { throw Wrong(line: line) }
      while let character = left.popFirst(), character != "\"" {
        guard character == "\\" else {
          value.append(character)
          continue
        }
        switch left.popFirst() {
        case "n": value.append("\n")
        case "\\": value.append("\\")
        case "\"": value.append("\"")
        default: throw Wrong(line: line)
        }
      }
      guard found.updateValue(value, forKey: name) == nil else { throw Wrong(line: line) }
      switch left.popFirst() {
      case ",": continue
      case "}":
        guard left.popFirst() == " " else { throw Wrong(line: line) }
        return (found, left)
      default: throw Wrong(line: line)
      }
    }
    throw Wrong(line: line)
  }
}
#endif
