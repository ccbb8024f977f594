// Looks at the pages of a running service with a real browser, and leaves pictures of what it saw.
// One argument: JSON with base, chromium, out, repository, and the runs good, hostile and running. Ends with 1 and words where something is wrong.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const task = JSON.parse(process.argv[2]);
const wrong = [];
const claim = (holds, words) => {
  if (!holds) wrong.push(words);
};

const open = async (browser, options) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
  await context.addInitScript(() => {
    window.seen = [];
    document.addEventListener("securitypolicyviolation", (event) => window.seen.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  context.on("page", (page) => {
    page.on("console", (message) => claim(message.type() !== "error", `${page.url()}: the console says ${message.text()}`));
    page.on("pageerror", (error) => claim(false, `${page.url()}: ${error}`));
    page.on("dialog", (dialog) => {
      claim(false, `${page.url()}: a dialog opened: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on("request", (request) => {
      const url = request.url();
      claim(url.startsWith(`${task.base}/`) || url.startsWith("data:"), `${page.url()}: asked for ${url}`);
    });
  });
  return context;
};

const picture = (page, name) => page.screenshot({ path: path.join(task.out, `${name}.png`), fullPage: true, animations: "disabled" });

const go = async (page, address) => {
  const answer = await page.goto(task.base + address, { waitUntil: "load" });
  return answer.status();
};

// Nothing was blocked, nothing is wider than the window, and nothing is wrong for who can't see or use a mouse.
const inOrder = async (page, name) => {
  const seen = await page.evaluate(() => window.seen);
  claim(seen.length === 0, `${name}: the policy blocked ${seen}`);
  const [wide, window_] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  claim(wide <= window_, `${name}: is ${wide} wide in a window of ${window_}`);
};

const accessible = async (page, name) => {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"] }));
  for (const one of found.violations) claim(false, `${name}: ${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html).join(" ")}`);
};

const pages = {
  now: "/",
  runs: "/runs",
  run: `/runs/${task.good}`,
  hostile: `/runs/${task.hostile}`,
  repositories: "/repositories",
  reviews: "/reviews",
  health: "/health",
  audit: "/audit",
  lost: "/there-is-nothing",
};

const all = async (browser, kind, options, check) => {
  const context = await open(browser, options);
  const page = await context.newPage();
  for (const [name, address] of Object.entries(pages)) {
    const before = wrong.length;
    const status = await go(page, address);
    claim(status === (name === "lost" ? 404 : 200), `${name}: ${status}`);
    if (name === "lost") wrong.splice(before, wrong.length, ...wrong.slice(before).filter((words) => !words.includes("404")));
    if (options.javaScriptEnabled !== false) await inOrder(page, `${kind} ${name}`);
    await picture(page, `${name}-${kind}`);
    await check(page, name);
  }
  await context.close();
};

const colour = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

const live = async (browser) => {
  const context = await open(browser, {});
  const [now, run] = [await context.newPage(), await context.newPage()];
  await go(now, "/");
  claim(await now.locator(`section[aria-labelledby=running] a[href="/runs/${task.running}"]`).count() === 1, "now: the run that goes on is there");
  const took = now.locator(`[data-cell="took-${task.running}"]`);
  const first = await took.textContent();
  await now.waitForFunction(([cell, text]) => document.querySelector(cell).textContent !== text, [`[data-cell="took-${task.running}"]`, first]);
  await go(run, `/runs/${task.running}`);
  claim((await run.locator(".steps > li").count()) >= 3, "run: the steps of a run that goes on are there");
  const fold = run.locator(".steps details").first();
  await fold.locator("summary").click();
  await picture(run, "run-going-on");
  await run.getByRole("button", { name: "Stop it" }).click();
  await run.getByText("It is asked to stop").waitFor();
  await now.locator(`section[aria-labelledby=ended] a[href="/runs/${task.running}"]`).waitFor();
  claim((await now.getByText("Nothing runs at this moment").count()) === 1, "now: the run that ended runs no more");
  await run.getByText("Somebody or something stopped it").waitFor();
  claim(await run.getByRole("button", { name: "Run once more" }).isVisible(), "run: what has ended can be made once more");
  await inOrder(now, "live now");
  await context.close();
};

const forms = async (browser) => {
  const context = await open(browser, {});
  const page = await context.newPage();
  await go(page, "/runs");
  const rows = () => page.locator("tbody tr").count();
  claim((await rows()) === 3, `runs: ${await rows()} rows`);
  await page.getByLabel("Outcome").selectOption("cancelled");
  await page.getByRole("button", { name: "Show" }).click();
  await page.waitForURL(/outcome=cancelled/);
  claim((await rows()) === 1, "runs: the filter by outcome");
  await page.getByLabel("Repository").fill("nobody/nothing");
  await page.getByRole("button", { name: "Show" }).click();
  await page.getByText("No run is like that").waitFor();
  await page.getByRole("link", { name: "Show all" }).click();
  await page.getByLabel("Repository").fill(task.repository.toUpperCase());
  await page.keyboard.press("Enter");
  await page.waitForURL(/repository=/);
  claim((await rows()) === 3, "runs: the filter by repository");
  await go(page, `/runs/${task.good}`);
  await page.getByRole("button", { name: "Run once more" }).click();
  await page.getByText("It waits for its turn").waitFor();
  await context.close();
};

const keys = async (browser) => {
  const context = await open(browser, {});
  const page = await context.newPage();
  await go(page, `/runs/${task.good}`);
  await page.keyboard.press("Tab");
  claim((await page.evaluate(() => document.activeElement.textContent)) === "Skip to the content", "keyboard: the first stop skips the head");
  await picture(page, "keyboard");
  await page.keyboard.press("Enter");
  claim((await page.evaluate(() => document.activeElement.id)) === "main", "keyboard: the skip goes to the content");
  await context.close();
};

const main = async () => {
  fs.mkdirSync(task.out, { recursive: true });
  const browser = await chromium.launch({ executablePath: task.chromium, args: ["--no-sandbox", "--disable-gpu"] });
  try {
    let light;
    await all(browser, "light", { colorScheme: "light" }, async (page, name) => {
      light = await colour(page);
      await accessible(page, `light ${name}`);
      if (name === "hostile") {
        claim((await page.locator("main img, main script, main b, main svg[onload]").count()) === 0, "hostile: a text became an element");
        claim(await page.getByText("<script>alert(1)</script>").first().isVisible(), "hostile: the text is shown");
      }
    });
    await all(browser, "dark", { colorScheme: "dark" }, async (page, name) => {
      claim((await colour(page)) !== light, `dark ${name}: is as light as by day`);
      await accessible(page, `dark ${name}`);
    });
    await all(browser, "large", { viewport: { width: 640, height: 450 }, deviceScaleFactor: 2 }, async () => {});
    await all(browser, "narrow", { viewport: { width: 320, height: 640 } }, async () => {});
    await live(browser);
    await keys(browser);
    await forms(browser);
    await all(browser, "plain", { javaScriptEnabled: false }, async (page, name) => {
      claim(await page.locator("h1").isVisible(), `without a script ${name}: has its content`);
      if (name === "hostile") {
        await page.getByRole("button", { name: "Run once more" }).click();
        await page.getByText("It waits for its turn").waitFor();
      }
    });
  } finally {
    await browser.close();
  }
};

main().then(
  () => {
    for (const words of wrong) console.error(words);
    console.log(`${fs.readdirSync(task.out).length} pictures in ${task.out}`);
    process.exit(wrong.length ? 1 : 0);
  },
  (error) => {
    for (const words of wrong) console.error(words);
    console.error(error);
    process.exit(1);
  },
);
