// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine

/// The lines of a report, for a number of columns and rows.
struct TopScreen {
  let report: TopReport
  let columns: Int

  /// A table or list below the summary.
  private struct Section {
    let heading: String
    let rows: [String]
  }

  /// The most rows of a section in plain text.
  private static let mostRows = 10

  init(_ report: TopReport, columns: Int) {
    self.report = report
    self.columns = max(columns, 1)
  }

  /// Returns the lines, none longer than the columns.
  ///
  /// - Parameters:
  ///   - rows: The most lines; sections are shortened to fit, the longest first. `nil`: no limit.
  ///   - hint: The last line.
  func lines(rows: Int? = nil, hint: String? = nil) -> [String] {
    var result = summary.map { cut($0) }
    let foot = hint.map { [cut($0)] } ?? []
    var sections = self.sections.filter { !$0.rows.isEmpty }
    // Each section has an empty line and its heading before its rows.
    let used = result.count + foot.count
    if let rows { sections = Array(sections.prefix(max((rows - used) / 3, 0))) }
    let free = rows.map { $0 - used - 2 * sections.count }
    for (section, count) in zip(sections, Self.share(free, among: sections.map(\.rows.count)))
    where count > 0 {
      result += ["", Style.heading(cut(section.heading))]
      result += section.rows.prefix(count).map { cut($0) }
      if count < section.rows.count, rows == nil {
        result.append(cut("and \(section.rows.count - count) more"))
      }
    }
    guard let rows else { return result + foot }
    return Array(result.prefix(max(rows - foot.count, 0))) + foot
  }

  /// Returns how many rows of each list are shown.
  private static func share(_ free: Int?, among counts: [Int]) -> [Int] {
    var shown = counts.map { min($0, free == nil ? mostRows : $0) }
    guard let free else { return shown }
    while shown.reduce(0, +) > max(free, 0), let most = shown.max(), most > 0 {
      shown[shown.lastIndex(of: most)!] -= 1
    }
    return shown
  }

  private func cut(_ text: String) -> String {
    let clean = TextLayout.cleaned(text)
    return clean.count > columns ? String(clean.prefix(columns - 1)) + "…" : clean
  }

  // MARK: Summary

  private var summary: [String] {
    let now = report.now
    let path = TextLayout.shortened(now.path, to: max(columns - 24, 8))
    let clock = Timestamp(now.time.milliseconds).iso.dropFirst(11).prefix(8)
    let interval = TopFormat.rate(report.seconds)
    var lines = ["larder top  \(path)  \(clock)"]
    lines.append(
      ".\(now.durability), generation \(now.generation), "
        + TextLayout.count(now.processes.count, "process", "processes")
        + ", file \(ByteCount(bytes: now.fileBytes)), over \(interval) s")
    if now.isFenced { lines.append("The processes are about to switch to a new generation.") }
    lines += content
    lines.append(
      "reads   \(TopFormat.rate(reads))/s, hits \(percent(report.ratio(.memoryHits, .storeHits)))"
        + " (memory \(percent(report.ratio(.memoryHits))),"
        + " store \(percent(report.ratio(.storeHits)))), always \(percent(report.ratioOfAllTime))")
    lines.append(
      "writes  \(TopFormat.rate(report.rate(.sets)))/s sets,"
        + " \(TopFormat.rate(report.rate(.removals)))/s removals,"
        + " \(TopFormat.rate(report.rate(.evictions)))/s evicted,"
        + " \(TopFormat.rate(report.rate(.expirations)))/s expired")
    lines.append("commits \(TopFormat.rate(report.rate(.commits)))/s" + times)
    if let (pid, milliseconds) = report.writer, milliseconds >= 100 {
      lines.append(
        "writer  process \(pid) has had the writer lock for \(TopFormat.milliseconds(milliseconds))"
      )
    }
    return lines
  }

  private var reads: Double { report.rate(.memoryHits, .storeHits, .misses) }
  private func percent(_ ratio: Double?) -> String { TextLayout.percent(ratio) }

  private var content: [String] {
    guard let totals = report.now.content?.totals else {
      return ["budget  the totals cannot be read now"]
    }
    let bytes = Int(clamping: totals.charged)
    let entries = TextLayout.count(Int(clamping: totals.entries), "entry", "entries")
    var lines: [String] = []
    if let budget = report.now.budget {
      let share = Double(bytes) / Double(max(budget, 1))
      let text =
        " \(percent(share)), \(ByteCount(bytes: bytes)) of "
        + "\(ByteCount(bytes: Int(clamping: budget))), \(entries)"
      lines.append(
        "budget  " + TopFormat.bar(share, width: min(columns - 10 - text.count, 40)) + text)
    } else {
      lines.append("budget  none, \(ByteCount(bytes: bytes)), \(entries)")
    }
    if let most = report.now.entryBudget {
      let share = Double(totals.entries) / Double(max(most, 1))
      lines.append("entries \(percent(share)) of \(TextLayout.grouped(Int(clamping: most)))")
    }
    return lines
  }

  private var times: String {
    func below(_ share: Double) -> String {
      guard let index = report.commitTimes.index(ofShare: share) else { return "-" }
      return TopFormat.commitTime(index)
    }
    guard report.commitTimes.total > 0 else { return "" }
    return ", half \(below(0.5)), 99 % \(below(0.99)), longest \(below(1))"
  }

  // MARK: Sections

  private var sections: [Section] {
    [processes, readers, computations, locks, namespaces] + keys
  }

  private var processes: Section {
    let titles = ["READS/s", "MEMORY", "STORE", "MISSES", "SETS", "REMOVED", "COMMITS"]
    let heading = titles.reduce(TextLayout.left("PROCESS", width: 16)) {
      $0 + TextLayout.right($1, width: 9)
    }
    let rows = report.processes.map { process in
      let state = process.state
      let name = "\(state.pid)" + (state.isStopped ? " stopped" : "")
      let rates = [
        process.reads, process.rate(.memoryHits), process.rate(.storeHits), process.rate(.misses),
        process.rate(.sets), process.rate(.removals), process.rate(.commits),
      ]
      return rates.reduce(TextLayout.left(name, width: 16)) {
        $0 + TextLayout.right(TopFormat.rate($1), width: 9)
      }
    }
    return Section(heading: heading, rows: rows)
  }

  private var readers: Section {
    Section(
      heading: "READERS OF OLD SNAPSHOTS",
      rows: report.laggards.map { reader in
        let line = ReaderLine(reader, pageSize: report.now.pageSize)
        return "process \(line.pid)" + (line.isStopped ? " (stopped)" : "")
          + (line.seconds.map { ", \($0) s" } ?? "")
          + ", \(TextLayout.grouped(line.commitsBehind)) commits, keeps "
          + (reader.isPageCountComplete ? "" : "over ")
          + "\(TextLayout.grouped(reader.pinnedPages)) pages, \(ByteCount(bytes: line.pinnedBytes))"
      })
  }

  private var computations: Section {
    Section(
      heading: "COMPUTATIONS",
      rows: report.now.computations.map { computation in
        let lease = computation.lease
        let key = KeyName.text(lease.key) + (lease.isKeyCut ? "…" : "")
        return "process \(computation.pid) for \(age(lease.since)): \(key)"
          + (report.name(ofNamespace: lease.namespace).map { " in \"\($0)\"" } ?? "")
          + (lease.isCancelled ? ", result invalid" : "")
      })
  }

  private var locks: Section {
    Section(
      heading: "LOCKS",
      rows: report.now.locks.flatMap { lock in
        lock.holders.map { holder in
          "\(lock.kind) \(lock.name): process \(holder.process.pid) for \(age(holder.since))"
            + (lock.waiters.isEmpty ? "" : ", \(lock.waiters.count) wait")
        }
          + (lock.holders.isEmpty
            ? ["\(lock.kind) \(lock.name): \(lock.waiters.count) wait"] : [])
      })
  }

  private func age(_ since: Int64) -> String {
    Timestamp(since).distance(from: Timestamp(report.now.time.milliseconds))
  }

  private var namespaces: Section {
    let width = max(columns - 54, 8)
    var heading = TextLayout.left("NAMESPACE", width: width)
    for title in ["ENTRIES", "BYTES", "LIMIT", "BYTES/s"] {
      heading += TextLayout.right(title, width: title == "LIMIT" ? 14 : 12)
    }
    let rows = report.namespaces.map { namespace in
      let record = namespace.record
      let name = namespace.name.isEmpty ? "(without a name)" : namespace.name
      let limit =
        record.maximum > 0
        ? TextLayout.percent(Double(record.bytes) / Double(record.maximum)) : "-"
      return TextLayout.left(TextLayout.shortened(name, to: width - 1), width: width)
        + TextLayout.right(TextLayout.grouped(Int(clamping: record.entries)), width: 12)
        + TextLayout.right("\(ByteCount(bytes: Int(clamping: record.bytes)))", width: 12)
        + TextLayout.right(limit, width: 14)
        + TextLayout.right(namespace.bytes.map(TopFormat.change) ?? "-", width: 12)
    }
    return Section(heading: heading, rows: rows)
  }

  private var keys: [Section] {
    guard let keys = report.keys else { return [] }
    let width = max(columns - 40, 8)
    var heading = TextLayout.left("KEY", width: width)
    for title in ["HITS", "MISSES", "WRITES"] { heading += TextLayout.right(title, width: 9) }
    heading += TextLayout.right("SHARE", width: 9)
    let rows = keys.keys.prefix(20).map { key in
      var name =
        key.entry.map { $0.key.map(KeyName.text) ?? "(a large entry)" } ?? "(without an entry)"
      if let space = key.entry.flatMap({ report.name(ofNamespace: $0.namespace) }), !space.isEmpty {
        name += " in \(space)"
      }
      return [key.reads, key.misses, key.writes].reduce(
        TextLayout.left(TextLayout.shortened(name, to: width - 1), width: width)
      ) { $0 + TextLayout.right(TextLayout.grouped($1), width: 9) }
        + TextLayout.right(
          TextLayout.percent(Double(key.uses) / Double(max(keys.uses, 1))), width: 9)
    }
    let uses = TextLayout.grouped(keys.uses)
    let note =
      keys.isComplete ? "all \(uses) uses of entries" : "the first \(uses) uses of the interval"
    return [Section(heading: heading, rows: rows), Section(heading: "SAMPLED", rows: [note])]
  }
}

/// Numbers of the display.
enum TopFormat {
  /// `12,345`, `1.5`.
  static func rate(_ value: Double) -> String {
    if value < 9.95, value > 0 { return "\((max(value, 0.1) * 10).rounded() / 10)" }
    return TextLayout.grouped(Int(value.rounded()))
  }

  /// `+1.5 MiB`, `-64 B`.
  static func change(_ bytes: Double) -> String {
    let rounded = Int(bytes.rounded())
    return (rounded > 0 ? "+" : rounded < 0 ? "-" : "") + "\(ByteCount(bytes: abs(rounded)))"
  }

  static func milliseconds(_ value: Double) -> String {
    value < 10_000 ? "\(Int(value)) ms" : "\(Int(value / 1000)) s"
  }

  /// `< 131 µs`, `< 4.2 ms`, `> 268 ms`.
  static func commitTime(_ index: Int) -> String {
    let limit = CommitTimes.limit(index)
    let value = limit ?? CommitTimes.limit(index - 1) ?? 0
    let text =
      value < 1000
      ? "\(Int(value.rounded())) µs"
      : value < 10_000
        ? "\((value / 100).rounded() / 10) ms" : "\(Int((value / 1000).rounded())) ms"
    return (limit == nil ? "> " : "< ") + text
  }

  /// `[#####-----]`.
  static func bar(_ share: Double, width: Int) -> String {
    guard width > 2 else { return "" }
    let full = min(max(Int((share * Double(width)).rounded()), 0), width)
    return "[" + String(repeating: "#", count: full) + String(repeating: "-", count: width - full)
      + "]"
  }
}
#endif
