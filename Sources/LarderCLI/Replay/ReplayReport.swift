// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderCoding
import LarderEngine

/// A policy that is simulated in the tool.
enum SimulatedPolicy: String {
  case leastRecentlyUsed = "lru"
  case latestNextUse = "belady"

  /// The name in tables and plots.
  func title(_ capacity: Trace.Capacity) -> String {
    switch self {
    case .leastRecentlyUsed: "exact LRU"
    case .latestNextUse: capacity.isEntries ? "optimum" : "Belady, by next use"
    }
  }
}

/// The results of one trace.
struct TraceResult {
  let name: String
  let trace: Trace
  /// Whether the capacity is the default, a tenth of the distinct keys.
  var isDefaultCapacity = false
  var runs: [ReplayRun] = []
  var simulations: [(policy: SimulatedPolicy, capacity: Trace.Capacity, result: SimulatedHits)] = []

  init(name: String, trace: Trace) {
    self.name = name
    self.trace = trace
  }

  var requestedBytes: Int { (0..<trace.count).reduce(0) { $0 + trace.size($1) } }

  /// The capacities in their order, each once.
  var capacities: [Trace.Capacity] {
    var seen: Set<Trace.Capacity> = []
    return runs.map(\.capacity).filter { seen.insert($0).inserted }
  }

  /// The ratios of each policy, in the order of the capacities.
  func series(_ ratio: (_ hits: Int, _ hitBytes: Int) -> Double) -> [(name: String, [Double])] {
    var series: [(name: String, [Double])] = []
    func add(_ name: String, _ value: Double) {
      if let index = series.firstIndex(where: { $0.name == name }) {
        series[index].1.append(value)
      } else {
        series.append((name, [value]))
      }
    }
    for capacity in capacities {
      for run in runs where run.capacity == capacity {
        add(run.policy.description, ratio(run.total.hits, run.total.hitBytes))
      }
      for simulation in simulations where simulation.capacity == capacity {
        add(
          simulation.policy.title(capacity),
          ratio(simulation.result.hits, simulation.result.hitBytes))
      }
    }
    return series
  }

  var hitRatios: [(name: String, [Double])] {
    series { hits, _ in Double(hits) / Double(max(trace.count, 1)) }
  }

  var byteHitRatios: [(name: String, [Double])] {
    let all = Double(max(requestedBytes, 1))
    return series { _, bytes in Double(bytes) / all }
  }
}

/// The results of a replay as text and as JSON.
struct ReplayReport {
  private let results: [TraceResult]
  private let isComparison: Bool

  init(_ results: [TraceResult], isComparison: Bool) {
    self.results = results
    self.isComparison = isComparison
  }

  /// `67.23 %`; never 100 if an access is missing.
  static func percent(_ ratio: Double) -> String {
    let hundredths = ratio < 1 ? min(Int((ratio * 10_000).rounded()), 9999) : 10_000
    let rest = hundredths % 100
    return "\(hundredths / 100).\(rest < 10 ? "0" : "")\(rest) %"
  }

  // MARK: Text

  var text: String {
    if isComparison { return results.map(comparison).joined(separator: "\n") }
    if results.count == 1, results[0].runs.count == 1 { return single(results[0]) }
    return table
  }

  private func capacity(_ result: TraceResult, _ capacity: Trace.Capacity) -> String {
    capacity.text + (result.isDefaultCapacity ? " (a tenth of the distinct keys)" : "")
  }

  private func single(_ result: TraceResult) -> String {
    func line(_ name: String, _ value: String) -> String {
      TextLayout.left(name, width: 16) + value + "\n"
    }
    func line(_ name: String, _ value: Int) -> String { line(name, TextLayout.grouped(value)) }
    let run = result.runs[0]
    let total = run.total
    var text = line("trace", TextLayout.cleaned(result.name))
    text += line("policy", "\(run.policy)")
    text += line("capacity", capacity(result, run.capacity))
    text += line("accesses", total.accesses)
    text += line("distinct keys", result.trace.keyCount)
    text += line("hits", total.hits)
    text += line("hit ratio", Self.percent(total.hitRatio))
    text += line("byte hit ratio", Self.percent(total.byteHitRatio))
    text += line("evictions", run.evictions)
    if total.oversized > 0 { text += line("too large", total.oversized) }
    text += line("operations", "\(TextLayout.grouped(total.perSecond)) per second")
    guard run.processes.count > 1 else { return text }
    let each = run.processes.map { TextLayout.grouped($0.perSecond) }.joined(separator: ", ")
    return text + line("of each process", "\(each) per second")
  }

  private var table: String {
    var rows = [
      [
        "TRACE", "POLICY", "CAPACITY", "ACCESSES", "KEYS", "HITS", "HIT RATIO", "BYTE RATIO",
        "EVICTIONS", "OPS/S", "OPS/S EACH",
      ]
    ]
    for result in results {
      for run in result.runs {
        let total = run.total
        let each = run.processes.reduce(0) { $0 + $1.perSecond } / max(run.processes.count, 1)
        let numbers = [total.accesses, result.trace.keyCount, total.hits].map(TextLayout.grouped)
        rows.append(
          [TextLayout.shortened(result.name, to: 40), "\(run.policy)", run.capacity.text] + numbers
            + [Self.percent(total.hitRatio), Self.percent(total.byteHitRatio)]
            + [run.evictions, total.perSecond, each].map(TextLayout.grouped))
      }
    }
    return Self.aligned(rows, leftColumns: 2)
      + (results.contains(where: \.isDefaultCapacity)
        ? "The capacity is a tenth of the distinct keys.\n" : "")
  }

  private func comparison(_ result: TraceResult) -> String {
    var text = Style.heading(TextLayout.cleaned(result.name)) + "\n"
    text += TextLayout.count(result.trace.count, "access", "accesses")
    text += ", \(TextLayout.count(result.trace.keyCount, "distinct key", "distinct keys"))"
    let processes = result.runs[0].processes.count
    if processes > 1 { text += ", \(processes) processes" }
    if result.isDefaultCapacity { text += "; the capacity is a tenth of the distinct keys" }
    text += "\n\n" + grid("HIT RATIO", result.capacities, result.hitRatios)
    if result.trace.hasSizes {
      text += "\n" + grid("BYTE HIT RATIO", result.capacities, result.byteHitRatios)
    }
    return text
  }

  private func grid(
    _ title: String, _ capacities: [Trace.Capacity], _ series: [(name: String, values: [Double])]
  ) -> String {
    var rows = [[title] + series.map(\.name)]
    for (index, capacity) in capacities.enumerated() {
      rows.append([capacity.text] + series.map { Self.percent($0.values[index]) })
    }
    return Self.aligned(rows, leftColumns: 1)
  }

  /// Returns a table whose columns are as wide as their cells.
  static func aligned(_ rows: [[String]], leftColumns: Int) -> String {
    let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    var text = ""
    for (number, row) in rows.enumerated() {
      let line = row.enumerated().map { column, cell in
        column < leftColumns
          ? TextLayout.left(cell, width: widths[column] + 2)
          : TextLayout.right(cell, width: widths[column] + (column > leftColumns ? 2 : 0))
      }.joined()
      text += (number == 0 ? Style.heading(line) : line) + "\n"
    }
    return text
  }

  // MARK: JSON

  var json: CBORValue {
    .object([("traces", .array(results.map(json)))])
  }

  private func json(_ result: TraceResult) -> CBORValue {
    var fields: [(String, CBORValue)] = [
      ("trace", .text(result.name)), ("accesses", CBORValue(result.trace.count)),
      ("distinctKeys", CBORValue(result.trace.keyCount)),
      ("requestedBytes", CBORValue(result.requestedBytes)),
      ("runs", .array(result.runs.map(json))),
    ]
    if isComparison {
      fields.append(
        (
          "simulations",
          .array(
            result.simulations.map { simulation in
              json(simulation.policy, simulation.capacity, simulation.result, result)
            })
        ))
    }
    return .object(fields)
  }

  private func json(_ run: ReplayRun) -> CBORValue {
    let total = run.total
    return .object([
      ("policy", .text("\(run.policy)")), field(run.capacity), ("hits", CBORValue(total.hits)),
      ("hitRatio", .float(total.hitRatio)), ("hitBytes", CBORValue(total.hitBytes)),
      ("byteHitRatio", .float(total.byteHitRatio)), ("evictions", CBORValue(run.evictions)),
      ("tooLarge", CBORValue(total.oversized)),
      ("seconds", .float(Double(run.nanoseconds) / 1e9)),
      ("operationsPerSecond", CBORValue(total.perSecond)),
      (
        "processes",
        .array(
          run.processes.map {
            .object([
              ("accesses", CBORValue($0.accesses)), ("hits", CBORValue($0.hits)),
              ("operationsPerSecond", CBORValue($0.perSecond)),
            ])
          })
      ),
    ])
  }

  private func json(
    _ policy: SimulatedPolicy, _ capacity: Trace.Capacity, _ hits: SimulatedHits,
    _ result: TraceResult
  ) -> CBORValue {
    .object([
      ("policy", .text(policy.rawValue)), field(capacity), ("hits", CBORValue(hits.hits)),
      ("hitRatio", .float(Double(hits.hits) / Double(result.trace.count))),
      ("hitBytes", CBORValue(hits.hitBytes)),
      (
        "byteHitRatio", .float(Double(hits.hitBytes) / Double(max(result.requestedBytes, 1)))
      ),
    ])
  }

  private func field(_ capacity: Trace.Capacity) -> (String, CBORValue) {
    (capacity.isEntries ? "entries" : "bytes", CBORValue(capacity.number))
  }
}
#endif
