// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

private struct Kite: Storable {
  let id: Int
  var span: String
  var owner: String?
  static let storedName = "LarderCLITests.Kite"
  static let indexes = [Index<Kite>("span", \.span)]
}

private struct WideKite: Storable {
  let id: Int
  var span: Double
  var lines: Int
  static let storedName = "LarderCLITests.Kite"
  static let schemaVersion = 2
  static let indexes = [Index<WideKite>("lines", \.lines, unique: true)]
}

@Suite struct MigrationsCommandTests {
  @Test func `Stored schemas are shown with those of a program and the difference`() throws {
    try withTool { tool in
      let objects = try ObjectStore(at: tool.store)
      defer { objects.close() }
      try objects.save(Kite(id: 1, span: "2"))
      try objects.migrate([.deleteAll(named: "LarderCLITests.Nothing")])
      let shown = try tool.output("migrations")
      for line in [
        "LarderCLITests.Kite", "  version     1", "  fields      id: integer",
        "              owner: text?", "  indexes     span: \\.span (String)",
      ] { #expect(shown.contains(line + "\n"), "\(shown)") }
      #expect(!shown.contains("difference"))
      // The program that saved: no difference.
      let same = try objects.schemaDescription(of: Kite.self, example: Kite(id: 1, span: ""))
      #expect(
        try tool.output("migrations", "--schema", "-", input: [same])
          .contains("  difference  none\n"))
      // An export is a schema as well.
      let exported = try tool.output("export", "Kite", "-").split(separator: "\n").map(String.init)
      #expect(try tool.run("migrations", "--schema", "-", input: exported).status == .exited(0))
      // Another program.
      let example = WideKite(id: 1, span: 1, lines: 2)
      let other = try objects.schemaDescription(of: WideKite.self, example: example)
      let outcome = try tool.run("migrations", "--schema", "-", "--json", input: [other])
      #expect(outcome.status == .exited(1))
      let types = try #require(try Tool.object(outcome.output)["types"] as? [[String: Any]])
      #expect(
        types.first?["differences"] as? [String] == [
          "version: stored 1, declared 2", "field lines: declared integer, not stored",
          "field owner: stored text?, not declared", "field span: stored text, declared number",
          "index lines: declared over \\.lines (Int), unique, not stored",
          "index span: stored over \\.span (String), not declared",
        ], "\(types)")
      let refused = try tool.run("migrations", "--schema", "-", input: ["{}"])
      #expect(refused.status == .exited(64))
    }
  }
}
#endif
