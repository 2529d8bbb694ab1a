// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderEngine
import LarderMemo

/// `larder top`: what the processes of a store do now.
struct TopCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "top",
    abstract: "Watch what the processes of a store do.",
    discussion: """
      Shows rates, hit ratios, commit times, the budget, old readers, computations, locks and \
      namespaces, again after each interval. Keys: q quits, k starts and ends the sampling of keys, \
      space shows the next interval at once.

      The command does not open the store. It reads the files and takes no lock, no process slot and \
      no reader slot, so that it neither changes nor delays anything. It follows a store that is \
      compacted, repaired or created again.

      Rates are differences of the processes' counters. Memory hits are counted in steps of 64 for \
      each cache. The time of a commit is that for which its process has the writer lock. BYTES/s is \
      the change of what a namespace counts against the budget. Ages of readers are exact to 16 s.

      With --keys all processes record their next uses of entries after each interval, at most 8,176 \
      together (496 in a small store), into shared memory, where the command takes them from; nothing \
      else writes to the store. The hottest keys are those of this sample, which can be a small part \
      of the interval. Uses of objects are not sampled.

      EXAMPLES
        larder top
        larder top /var/tmp/app --interval 5
        larder top --once
        larder top --once --json --keys | jq '.keys.hottest[0]'
      """)

  @Argument(help: "The store's directory; the same as --store.")
  var path: String?

  @Option(name: .long, help: ArgumentHelp("The time between two displays.", valueName: "seconds"))
  var interval = 2.0

  @Flag(name: .long, help: "Print one interval as plain text, or as JSON, and exit.")
  var once = false

  @Flag(name: .long, help: "Sample the uses of keys.")
  var keys = false

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    try arguments.refuse(second: path)
    guard (0.1...3600).contains(interval) else {
      throw ValidationError("Invalid --interval \(interval): the range is 0.1 to 3600 seconds.")
    }
    if arguments.json, !once { throw ValidationError("--json requires --once.") }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = arguments.at(path)
      var watch = TopWatch(path: store.path, interval: .seconds(interval))
      guard try watch.begin(samples: keys) else { throw store.missing }
      if once { return try showOnce(&watch, store) }
      guard Console.isTerminal, !Style.isDumb else {
        throw ToolError.usage(
          "Standard output is no terminal that can show a live display. Print one interval with "
            + "`larder top --once`, also as --json.")
      }
      try TopDisplay.run(&watch, interval)
    }
  }

  private func showOnce(_ watch: inout TopWatch, _ store: StoreArguments) throws {
    Thread.sleep(forTimeInterval: interval)
    guard let report = try watch.next() else { throw store.missing }
    if arguments.json { return Console.json(report.json) }
    for line in TopScreen(report, columns: Style.width ?? 80).lines() { Console.line(line) }
    if let problem = watch.problem { Console.printError("larder: \(problem)") }
  }
}

/// Consecutive observations of a store.
struct TopWatch {
  private let observer: StoreObserver
  private let path: String
  private let interval: Duration
  private var last: StoreObservation?
  private var sampler: UseSampler?
  private var samples = false
  /// The reason why keys are not sampled, although they should be.
  private(set) var problem: String?

  init(path: String, interval: Duration) {
    observer = StoreObserver(path: path)
    (self.path, self.interval) = (path, interval)
  }

  /// Begins the first interval.
  ///
  /// - Returns: `false` if there is no store.
  mutating func begin(samples: Bool) throws -> Bool {
    last = try observer.observe()
    self.samples = samples
    arm()
    return last != nil
  }

  /// Starts or ends the sampling of keys.
  mutating func toggleSampling() {
    samples.toggle()
    arm()
  }

  private mutating func arm() {
    problem = nil
    guard samples else {
      sampler = nil
      return
    }
    if let sampler, sampler.binding == last?.binding { return }
    sampler = nil
    do throws {
      sampler = try UseSampler(path: path, interval: interval)
      if sampler == nil { problem = "Keys are not sampled: another process samples the store." }
    } catch {
      problem = "Keys are not sampled: \(error)."
    }
  }

  /// Ends an interval, and begins the next one.
  ///
  /// - Returns: The report; `nil` while there is no store, and after the first observation of one.
  mutating func next() throws -> TopReport? {
    let burst = sampler?.collect(next: interval)
    let before = last
    last = try observer.observe()
    defer { arm() }
    guard let before, let last else { return nil }
    return TopReport(before, last, keys: burst.map { HotKeys($0, observer) })
  }
}

/// The live display.
enum TopDisplay {
  static func run(_ watch: inout TopWatch, _ interval: Double) throws {
    let session = try TerminalSession()
    defer { session.close() }
    var report: TopReport?
    var message = "Measuring for \(TopFormat.rate(interval)) s."
    let clock = ContinuousClock()
    var deadline = clock.now + .seconds(interval)
    while true {
      let (columns, rows) = session.size
      let hint = watch.problem ?? "q quit  k \(report?.keys == nil ? "" : "no ")keys  space now"
      let lines = report.map { TopScreen($0, columns: columns).lines(rows: rows, hint: hint) }
      session.show(lines ?? [message, "q quit"].map { String($0.prefix(columns)) })
      // Rounded up: the wait must not end before the deadline.
      let rest = max((deadline - clock.now).milliseconds + 1, 0)
      var isDue = false
      switch try session.wait(milliseconds: Int(rest)) {
      case .timeout: isDue = clock.now >= deadline
      case .redraw: break
      case .closed: return
      case .key(let key):
        switch Character(UnicodeScalar(key)) {
        case "q", "Q": return
        case "k", "K": watch.toggleSampling()
        case " ": isDue = true
        default: break
        }
      }
      guard isDue else { continue }
      report = try watch.next()
      message = "No store is there now. The display continues when one is."
      deadline = clock.now + .seconds(interval)
    }
  }
}
#endif
