// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderCoding
import LarderEngine

/// Advice as text and as JSON.
struct AdviceReport {
  private let advice: Advice
  private let limits: StoreLimits
  private let statistics: StoreStatistics
  private let names: [UInt32: String]
  private let pageFit: [UInt32: PageFit]

  /// The share of unused bytes of large entries from which they are reported.
  private static let reportedWaste = 0.05
  /// The share of first reads from which the sample is reported as too short.
  private static let manyFirstReads = 0.1

  init(
    _ advice: Advice, _ limits: StoreLimits, _ statistics: StoreStatistics,
    names: [UInt32: String], pageFit: [UInt32: PageFit]
  ) {
    self.advice = advice
    self.limits = limits
    self.statistics = statistics
    self.names = names
    self.pageFit = pageFit
  }

  private var sampled: SampledTrace { advice.sampled }
  private var hasLimit: Bool { limits.budget != nil || limits.entryBudget != nil }

  /// The namespaces with counted gets, the most used one first.
  private var namespaces: [UInt32] {
    advice.gets.keys.sorted { (advice.gets[$1]!, $0) < (advice.gets[$0]!, $1) }
  }

  private func name(_ number: UInt32) -> String {
    guard let name = names[number] else { return "(entry was removed)" }
    return name.isEmpty ? "(without a name)" : name
  }

  /// An estimate for all keys from a number of sampled ones.
  private func all(_ sample: Int) -> Int {
    Int((Double(sample) / max(advice.accesses.share, 1e-9)).rounded())
  }

  // MARK: Text

  var text: String {
    summary + "\n" + curve + "\n" + changes + perNamespace + notes
  }

  private var summary: String {
    func line(_ name: String, _ value: String) -> String {
      TextLayout.left(name, width: 14) + value + "\n"
    }
    let reads = Double(max(sampled.reads, 1))
    let accesses = TextLayout.count(sampled.reads, "read", "reads")
    let keys = TextLayout.count(sampled.trace.keyCount, "key", "keys")
    let seconds = (advice.accesses.seconds * 10).rounded() / 10
    return line("store", TextLayout.cleaned(statistics.path))
      + line(
        "sampled",
        "\(accesses) of \(keys) in \(seconds) s, "
          + "\(TextLayout.percent(advice.accesses.share)) of all keys")
      + line(
        "hit ratio",
        "\(TextLayout.percent(sampled.hitRatio)) "
          + "(memory \(TextLayout.percent(Double(sampled.memoryHits) / reads)), "
          + "store \(TextLayout.percent(Double(sampled.storeHits) / reads)))")
      + line("policy", "\(limits.evictionPolicy)")
      + line(
        "stored",
        "\(ByteCount(bytes: statistics.bytes)), "
          + TextLayout.count(statistics.entries, "entry", "entries")
          + (hasLimit ? "" : ", no budget"))
  }

  private var curve: String {
    var rows = [[hasLimit ? "BUDGET" : "SIZE", "", "adaptive", "exact LRU"]]
    for point in advice.points {
      rows.append([
        point.capacity.text, factor(point.factor),
        TextLayout.percent(advice.ratio(point.adaptive)),
        TextLayout.percent(advice.ratio(point.leastRecentlyUsed)),
      ])
    }
    return ReplayReport.aligned(rows, leftColumns: 2)
  }

  private func factor(_ factor: Double) -> String {
    factor < 1 ? "1/\(Int(1 / factor))" : factor == 1 ? "now" : "x \(Int(factor))"
  }

  /// The ratio of the policy of the store.
  private func ratio(_ point: Advice.Point) -> Double {
    advice.ratio(
      limits.evictionPolicy == .sampledLRU ? point.leastRecentlyUsed : point.adaptive)
  }

  private func point(_ factor: Double) -> Advice.Point {
    advice.points.first { $0.factor == factor }!
  }

  private var changes: String {
    func points(_ from: Double, _ to: Double) -> String {
      let tenths = Int(((to - from) * 1000).rounded())
      let sign = tenths < 0 ? "-" : "+"
      return "\(sign)\(tenths.magnitude / 10).\(tenths.magnitude % 10) points"
    }
    let now = ratio(point(1))
    let limit = hasLimit ? "budget" : "size"
    var text =
      "Half the \(limit): \(points(now, ratio(point(0.5)))); "
      + "twice the \(limit): \(points(now, ratio(point(2)))).\n"
    let (adaptive, lru) = (
      advice.ratio(point(1).adaptive), advice.ratio(point(1).leastRecentlyUsed)
    )
    let other = limits.evictionPolicy == .sampledLRU ? adaptive : lru
    let name = limits.evictionPolicy == .sampledLRU ? "adaptive" : "sampledLRU"
    text += "The policy \(name) instead of \(limits.evictionPolicy): about \(points(now, other)).\n"
    if advice.memoryBytes > 0 {
      text +=
        "A memory tier of \(ByteCount(bytes: advice.memoryBytes)) contains "
        + "\(Int(Advice.memoryShare * 100)) % of the hits.\n"
    }
    return text
  }

  private var perNamespace: String {
    let shown = namespaces.prefix(20)
    guard namespaces.count > 1 else { return "" }
    let policy = limits.evictionPolicy
    var rows = [
      ["NAMESPACE, \(policy == .sampledLRU ? "exact LRU" : "adaptive")", "READS"]
        + advice.points.map { factor($0.factor) }
    ]
    for number in shown {
      let ratios = advice.points.map { point in
        let hits = policy == .sampledLRU ? point.leastRecentlyUsed : point.adaptive
        return TextLayout.percent(advice.ratio(hits, in: number))
      }
      rows.append(
        [
          TextLayout.shortened(name(number), to: 40),
          TextLayout.grouped(advice.gets[number] ?? 0),
        ] + ratios)
    }
    return "\n" + ReplayReport.aligned(rows, leftColumns: 1)
  }

  private var notes: String {
    var lines: [String] = []
    let reads = Double(max(sampled.reads, 1))
    let first = Double(sampled.firstReads) / reads
    if first >= Self.manyFirstReads {
      lines.append(
        "\(TextLayout.percent(first)) of the reads are the first sampled use of a key: larger "
          + "budgets may have more hits than shown. Pass a longer --seconds.")
    }
    let absent = Double(sampled.absentReads) / reads
    if absent >= 0.01 {
      lines.append(
        "\(TextLayout.percent(absent)) of the reads are of keys that are never stored. They are "
          + "not in the table.")
    }
    for number in pageFit.keys.sorted() where isWasteful(pageFit[number]!) {
      let fit = pageFit[number]!
      lines.append(
        "Namespace \"\(TextLayout.shortened(names[number] ?? "", to: 40))\": about "
          + "\(TextLayout.count(all(fit.entries), "entry has", "entries have")) overflow pages, "
          + "of which \(ByteCount(bytes: all(fit.unusedBytes))) are unused. "
          + "\(TextLayout.grouped(all(fit.slightlyTooLong))) of them would need a page less if they "
          + "were \(PageFit.slight) bytes shorter.")
    }
    return lines.isEmpty ? "" : "\n" + lines.joined(separator: "\n") + "\n"
  }

  private func isWasteful(_ fit: PageFit) -> Bool {
    Double(all(fit.unusedBytes)) >= Self.reportedWaste * Double(max(statistics.bytes, 1))
      || (fit.entries > 0 && fit.slightlyTooLong * 4 >= fit.entries)
  }

  // MARK: JSON

  var json: CBORValue {
    .object([
      ("path", .text(statistics.path)), ("seconds", .float(advice.accesses.seconds)),
      ("sampledReads", CBORValue(sampled.reads)),
      ("sampledKeys", CBORValue(sampled.trace.keyCount)),
      ("share", .float(advice.accesses.share)),
      ("complete", .boolean(advice.accesses.isComplete)),
      ("memoryHits", CBORValue(sampled.memoryHits)), ("storeHits", CBORValue(sampled.storeHits)),
      ("misses", CBORValue(sampled.misses)), ("hitRatio", .float(sampled.hitRatio)),
      ("firstReads", CBORValue(sampled.firstReads)),
      ("readsOfAbsentKeys", CBORValue(sampled.absentReads)),
      ("policy", .text("\(limits.evictionPolicy)")),
      ("bytes", CBORValue(statistics.bytes)), ("entries", CBORValue(statistics.entries)),
      ("budgets", .array(advice.points.map(json))),
      ("memoryTierBytes", CBORValue(advice.memoryBytes)),
      ("overflowPages", .array(pageFit.keys.sorted().compactMap(overflow))),
    ])
  }

  private func json(_ point: Advice.Point) -> CBORValue {
    let spaces = namespaces.map { number in
      CBORValue.object([
        ("name", CBORValue(names[number])), ("reads", CBORValue(advice.gets[number] ?? 0)),
        ("adaptive", .float(advice.ratio(point.adaptive, in: number))),
        ("lru", .float(advice.ratio(point.leastRecentlyUsed, in: number))),
      ])
    }
    return .object([
      ("factor", .float(point.factor)),
      (point.capacity.isEntries ? "entries" : "bytes", CBORValue(point.capacity.number)),
      ("adaptive", .float(advice.ratio(point.adaptive))),
      ("lru", .float(advice.ratio(point.leastRecentlyUsed))), ("namespaces", .array(spaces)),
    ])
  }

  private func overflow(_ number: UInt32) -> CBORValue? {
    guard let fit = pageFit[number], fit.entries > 0 else { return nil }
    return .object([
      ("namespace", CBORValue(names[number])), ("entries", CBORValue(all(fit.entries))),
      ("unusedBytes", CBORValue(all(fit.unusedBytes))),
      ("slightlyTooLong", CBORValue(all(fit.slightlyTooLong))),
    ])
  }
}
#endif
