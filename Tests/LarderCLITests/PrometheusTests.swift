// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderTesting
import Testing

/// A page of Prometheus' text format 0.0.4, read by the letter: what is not of the format, or not of
/// its rules for names, is an error.
struct PrometheusPage {
  struct Wrong: Error, CustomStringConvertible {
    let description: String
  }

  struct Series: Hashable {
    let name: String
    let labels: [String: String]
  }

  private(set) var kinds: [(name: String, kind: String)] = []
  private(set) var samples: [Series: Int] = [:]

  func value(_ name: String, _ labels: [String: String]) -> Int? {
    samples[Series(name: name, labels: labels)]
  }

  init(_ text: String) throws {
    guard text.unicodeScalars.last == "\n" else {
      throw Wrong(description: "no line feed at the end")
    }
    var helped: String?
    for line in text.unicodeScalars.dropLast().split(
      separator: "\n", omittingEmptySubsequences: false)
    {
      let line = String(String.UnicodeScalarView(line))
      if line.hasPrefix("# HELP ") {
        let parts = line.dropFirst(7).split(separator: " ", maxSplits: 1)
        guard parts.count == 2, Self.isName(parts[0]) else { throw Wrong(description: line) }
        guard !kinds.contains(where: { $0.name == parts[0] }) else {
          throw Wrong(description: "twice: \(line)")
        }
        helped = String(parts[0])
      } else if line.hasPrefix("# TYPE ") {
        let parts = line.dropFirst(7).split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 2, helped == String(parts[0]) else { throw Wrong(description: line) }
        guard ["counter", "gauge"].contains(parts[1]) else { throw Wrong(description: line) }
        guard (parts[1] == "counter") == parts[0].hasSuffix("_total") else {
          throw Wrong(description: "only counters end in _total: \(line)")
        }
        kinds.append((String(parts[0]), String(parts[1])))
        helped = nil
      } else {
        var reader = Reader(line)
        let series = Series(name: try reader.name(), labels: try reader.labels())
        guard series.name == kinds.last?.name, helped == nil else {
          throw Wrong(description: "outside of its group: \(line)")
        }
        let value = try reader.rest()
        guard let number = Int(value), "\(number)" == value, number >= 0 else {
          throw Wrong(description: "no count: \(line)")
        }
        guard samples.updateValue(number, forKey: series) == nil else {
          throw Wrong(description: "twice: \(line)")
        }
      }
    }
    guard helped == nil,
      kinds.allSatisfy({ kind in samples.keys.contains { $0.name == kind.name } })
    else { throw Wrong(description: "a group without samples") }
  }

  fileprivate static func isName(_ text: some StringProtocol) -> Bool {
    guard let first = text.unicodeScalars.first, !("0"..."9" ~= first) else { return false }
    return text.unicodeScalars.allSatisfy {
      "a"..."z" ~= $0 || "A"..."Z" ~= $0 || "0"..."9" ~= $0 || $0 == "_"
    }
  }

  private struct Reader {
    private let line: String
    private var left: Substring.UnicodeScalarView

    init(_ line: String) {
      self.line = line
      left = line[...].unicodeScalars
    }

    private mutating func take(_ expected: Unicode.Scalar) throws {
      guard left.popFirst() == expected else {
        throw Wrong(description: "no \(expected) where it has to be: \(line)")
      }
    }

    mutating func name() throws -> String {
      let end = left.firstIndex { !PrometheusPage.isName("a\($0)") } ?? left.endIndex
      let name = String(left[..<end])
      left = left[end...]
      guard PrometheusPage.isName(name), !name.hasPrefix("__") else {
        throw Wrong(description: "no name: \(line)")
      }
      return name
    }

    mutating func labels() throws -> [String: String] {
      var labels: [String: String] = [:]
      try take("{")
      while true {
        let name = try name()
        try take("=")
        guard labels.updateValue(try quoted(), forKey: name) == nil else {
          throw Wrong(description: "a label twice: \(line)")
        }
        guard left.first == "," else { break }
        try take(",")
      }
      try take("}")
      try take(" ")
      return labels
    }

    private mutating func quoted() throws -> String {
      var text = ""
      try take("\"")
      while let scalar = left.popFirst() {
        switch scalar {
        case "\"": return text
        case "\\":
          switch left.popFirst() {
          case "\\": text += "\\"
          case "\"": text += "\""
          case "n": text += "\n"
          default: throw Wrong(description: "no such escape: \(line)")
          }
        default: text.unicodeScalars.append(scalar)
        }
      }
      throw Wrong(description: "a label does not end: \(line)")
    }

    func rest() throws -> String { String(left) }
  }
}

@Suite(.timeLimit(.minutes(60)))
struct PrometheusTests {
  @Test func `stat writes Prometheus' format, with the names of the metrics`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "key", "value", "--namespace", "n")
      try tool.whileInUse {
        _ = try tool.output("get", "key", "--namespace", "n")
        _ = try tool.run("get", "other", "--namespace", "n")
      }
      let statistics = try tool.json("stat")
      let page = try PrometheusPage(try tool.output("stat", "--prometheus"))

      let measures = StoreMetric.all.filter { !$0.isOfProcess && !$0.isOfSomeStores }
      #expect(page.kinds.map(\.name) == measures.map(\.name))
      #expect(page.kinds.map(\.kind) == measures.map(\.kind.rawValue))
      let store = ["store": try #require(statistics["path"] as? String)]
      func labels(_ name: String, _ value: String) -> [String: String] {
        store.merging([name: value]) { old, _ in old }
      }
      #expect(page.value("larder_hits_total", labels("tier", "store")) == 1)
      #expect(page.value("larder_hits_total", labels("tier", "memory")) == 0)
      #expect(page.value("larder_misses_total", store) == 1)
      #expect(page.value("larder_sets_total", store) == 1)
      #expect(page.value("larder_entries", store) == 1)
      #expect(page.value("larder_stored_bytes", store) == statistics["bytes"] as? Int)
      #expect(page.value("larder_budget_bytes", store) == 256 << 20)
      #expect(page.value("larder_file_bytes", store) == statistics["fileBytes"] as? Int)
      #expect(page.value("larder_namespace_entries", labels("namespace", "n")) == 1)
    }
  }

  @Test func `Paths and namespaces of any characters are labels`() throws {
    try withTemporaryDirectory { path in
      let tool = try Tool(store: "\(path)/a \"b\" \\n c\r\nd {e=\"f\",} é")
      let names = ["\"", "\\", "\n", "\r\n", "a\",x=\"b", "日本", "", "\\\"\n"]
      for name in names { _ = try tool.output("set", "key", "v", "--namespace", name) }
      let page = try PrometheusPage(try tool.output("stat", "--prometheus"))
      for name in names {
        let labels = ["store": tool.store, "namespace": name]
        #expect(page.value("larder_namespace_entries", labels) == 1, "\(name.debugDescription)")
      }
      #expect(page.samples.count { $0.key.name == "larder_namespace_bytes" } == names.count)
    }
  }

  @Test func `A store without a budget has no line for it`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "key", "value", "--durability", "durable")
      let page = try PrometheusPage(try tool.output("stat", "--prometheus"))
      #expect(!page.kinds.contains { $0.name == "larder_budget_bytes" })
      #expect(page.samples.count { $0.key.name == "larder_entries" } == 1)
    }
  }

  @Test func `Of a relaxed store the interval and the unsynced writes are shown`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "key", "value", "--durability", "relaxed")
      let statistics = try tool.json("stat")
      let page = try PrometheusPage(try tool.output("stat", "--prometheus"))
      let store = ["store": tool.store]
      let interval = try #require(page.value("larder_sync_interval_milliseconds", store))
      #expect(interval > 0 && interval == statistics["syncMilliseconds"] as? Int)
      // Between the two answers a background sync may have come.
      let unsynced = try #require(page.value("larder_unsynced_commits", store))
      #expect(try unsynced <= #require(statistics["unsyncedCommits"] as? Int))
    }
  }

  @Test func `Of a durable store the log is shown`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "key", "value", "--durability", "durable")
      let log = try #require(try tool.json("stat")["log"] as? [String: Any])
      let page = try PrometheusPage(try tool.output("stat", "--prometheus"))
      let store = ["store": tool.store]
      #expect(page.value("larder_log_bytes", store) == log["fileBytes"] as? Int)
      #expect(page.value("larder_log_syncs_total", store) == log["syncs"] as? Int)
      #expect(log["unsyncedCommits"] as? Int == 0)
      #expect(try tool.output("stat").contains("syncs per commit"))
    }
  }

  @Test func `stat writes one format, and none without a store`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "key", "value")
      #expect(try tool.run("stat", "--prometheus", "--json").status == .exited(64))
      let nowhere = try Tool(store: tool.store + "-nowhere").run("stat", "--prometheus")
      #expect(nowhere.status == .exited(2))
      #expect(nowhere.output.isEmpty)
    }
  }

  @Test(arguments: [
    "a_total{store=\"x\"} 1\n",
    "# HELP a_total Text.\n# TYPE a_total counter\n",
    "# HELP a_total Text.\n# TYPE a_total counter\na_total{store=\"x\"} 1",
    "# HELP a_total Text.\n# TYPE a_total counter\na_total{store=\"x} 1\n",
    "# HELP a_total Text.\n# TYPE a_total counter\na_total{store=\"\\t\"} 1\n",
    "# HELP a_total Text.\n# TYPE a_total counter\na_total{store=\"x\"} one\n",
    "# HELP a_total Text.\n# TYPE a_total counter\na_total{a=\"x\"} 1\na_total{a=\"x\"} 2\n",
    "# HELP a_total Text.\n# TYPE a_total gauge\na_total{store=\"x\"} 1\n",
    "# HELP a Text.\n# TYPE a counter\na{store=\"x\"} 1\n",
    "# HELP 1a Text.\n# TYPE 1a gauge\n1a{store=\"x\"} 1\n",
    "# TYPE a gauge\na{store=\"x\"} 1\n",
  ])
  func `The reader of these tests refuses what is not of the format`(text: String) {
    #expect(throws: PrometheusPage.Wrong.self) { try PrometheusPage(text) }
  }
}
#endif
